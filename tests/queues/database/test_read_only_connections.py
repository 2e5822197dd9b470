"""A connection of SQLite that has opened its file for reading, as SQLite does without the right to write."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, exc, text

import queues
from lr_client.subscriber.listener_session import transaction
from queues.database.transactions import writing
from queues.errors import StoreUnavailableError

CHANGE = text("UPDATE made SET number = number + 1")
Opening = Callable[[Engine], AbstractContextManager[Any]]


class File:
    """A site whose file is opened for reading while `mode` is "ro"; one connection serves all."""

    def __init__(self, path: Path) -> None:
        self.mode = "rw"
        url = f"sqlite:///{path}"
        made = queues.create_engine(url)
        queues.initialize(made, site_id="paris")
        with made.begin() as connection:
            connection.execute(text("CREATE TABLE made AS SELECT 1 AS number"))
        made.dispose()
        self.engine = create_engine(url, creator=lambda: self._open(path), pool_size=1, max_overflow=0)
        event.listen(self.engine, "connect", lambda driver, _record: driver.execute("PRAGMA busy_timeout = 1000"))

    def _open(self, path: Path) -> sqlite3.Connection:
        return sqlite3.connect(f"file:{path}?mode={self.mode}", uri=True, check_same_thread=False)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    made = File(tmp_path / "paris.db")
    yield made
    made.engine.dispose()


@pytest.mark.parametrize("opening", [writing, transaction])
def test_a_refused_write_replaces_the_connection(file: File, opening: Opening) -> None:
    file.mode = "ro"
    with pytest.raises((StoreUnavailableError, exc.OperationalError), match="readonly"), opening(file.engine) as found:
        found.execute(CHANGE)
    file.mode = "rw"
    with opening(file.engine) as found:
        found.execute(CHANGE)
