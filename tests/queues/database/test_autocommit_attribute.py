"""The engine of an application may use the attribute `autocommit` of sqlite3, which Python 3.12 has."""

import sqlite3
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine, NullPool, create_engine, inspect, text

import queues
from queues.database import dialects

pytestmark = pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
later = pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12 has the attribute")


class Begins(sqlite3.Connection):
    """Always in a transaction, as with autocommit=False."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.execute("BEGIN")

    def commit(self) -> None:
        super().commit()
        self.execute("BEGIN")

    def rollback(self) -> None:
        super().rollback()
        self.execute("BEGIN")


class Alone(sqlite3.Connection):
    """Tells that each statement commits by itself."""

    autocommit = True


@pytest.mark.parametrize("options", [{"factory": Begins}, pytest.param({"autocommit": False}, marks=later)])
def test_a_state_is_pinned_where_the_driver_begins_each_transaction(
    site: Engine, options: Mapping[str, object]
) -> None:
    engine = create_engine(site.url, poolclass=NullPool, connect_args=dict(options))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE numbers (id INTEGER PRIMARY KEY)"))
        connection.execute(text("INSERT INTO numbers VALUES (1), (2)"))
        assert not dialects.of(engine).commits_alone(connection)
    with dialects.of(engine).pin_cut(engine, folder=None, check=lambda: None) as state:
        with engine.begin() as connection:
            connection.execute(text("DELETE FROM numbers"))
        with dialects.of(engine).read_at(engine, state.name) as connection:
            assert connection.execute(text("SELECT count(*) FROM numbers")).scalar_one() == 2


@pytest.mark.parametrize("options", [{"factory": Begins}, pytest.param({"autocommit": False}, marks=later)])
def test_simultaneous_upgrades_wait_for_each_other(
    new_database: Callable[[], str], options: Mapping[str, object]
) -> None:
    """The driver begins without the write lock, and a lock after a read could not wait."""
    engine = create_engine(new_database(), poolclass=NullPool, connect_args=dict(options))
    start = threading.Barrier(4)

    def migrate(_: int) -> str:
        with engine.begin() as connection:
            start.wait()
            found = queues.upgrade(connection, site_id="paris")
            assert found is not None
            return found.branch

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(migrate, range(4)))) == 1
    with engine.connect() as connection:
        assert "lrq_write_lock" not in inspect(connection).get_table_names()


@pytest.mark.parametrize("options", [{"factory": Alone}, pytest.param({"autocommit": True}, marks=later)])
def test_an_engine_that_commits_every_statement_by_the_attribute_is_recognized(
    site: Engine, options: Mapping[str, object]
) -> None:
    engine = create_engine(site.url, poolclass=NullPool, connect_args=dict(options))
    with engine.connect() as connection, connection.begin():
        assert dialects.of(engine).commits_alone(connection)
