"""On SQLite a transaction gets the write lock soon after another connection releases it."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

import queues
from queues.clock import SystemClock
from queues.database import sqlite_locks
from queues.database.transactions import writing
from queues.errors import StoreUnavailableError


class HandClock(SystemClock):
    """A clock whose time passes in its waits only; *after* is called after each."""

    def __init__(self, after: Callable[[float], None]) -> None:
        self.seconds = 0.0
        self._after = after

    def monotonic(self) -> float:
        return self.seconds

    def wait(self, event: threading.Event, timeout: float) -> bool:
        self.seconds += timeout
        self._after(self.seconds)
        return False


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = queues.create_engine(f"sqlite:///{tmp_path / 'paris.db'}")
    queues.initialize(engine, site_id="paris")
    yield engine
    engine.dispose()


@pytest.mark.parametrize("held", [0.0004, 0.01, 0.054, 1.0])
def test_a_transaction_waits_little_longer_than_the_lock_is_held(
    engine: Engine, held: float, monkeypatch: pytest.MonkeyPatch
):
    with closing(sqlite3.connect(engine.url.database or "", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        def release(now: float) -> None:
            if now >= held and other.in_transaction:
                other.execute("COMMIT")

        clock = HandClock(release)
        monkeypatch.setattr(sqlite_locks, "SYSTEM_CLOCK", clock)
        with writing(engine):
            assert held <= clock.seconds <= held + max(held / 8, 0.0005)


@pytest.mark.parametrize("seconds", [30.0, 2.0], ids=["lrq's", "the application's"])
def test_a_lock_that_stays_is_the_usual_error_after_the_busy_timeout_of_the_connection(
    engine: Engine, seconds: float, monkeypatch: pytest.MonkeyPatch
):
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if seconds != sqlite_locks.BUSY_TIMEOUT:
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(seconds * 1_000)}")
    clock = HandClock(lambda _: None)
    with closing(sqlite3.connect(engine.url.database or "", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr(sqlite_locks, "SYSTEM_CLOCK", clock)
        with pytest.raises(StoreUnavailableError, match="locked"), writing(engine):
            pass
    assert seconds <= clock.seconds <= seconds * 1.125
    with writing(engine) as connection:
        assert connection.execute(text("PRAGMA busy_timeout")).scalar_one() == seconds * 1_000
