"""Connections outside the pool: a lost one is replaced, and no traceback of its close reaches the log."""

import gc
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Connection, Engine, text

from queues.database.postgresql.autocommit import Direct, close_held, held_connection
from queues.database.transactions import reading
from queues.errors import StoreUnavailableError
from queues.receive.wakeup_watch import SILENT_SECONDS, NotifyWatch
from queues.send_log.opening import watch_log
from tests.waiting import eventually

pytestmark = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)


@pytest.fixture
def admin(site: Engine) -> Iterator[Connection]:
    with site.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield connection


def end_others(admin: Connection) -> None:
    others = "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity"
    admin.execute(text(f"{others} WHERE datname = current_database() AND pid <> pg_backend_pid()"))


def uses(site: Engine) -> list[Callable[[], object]]:
    """Return one use of each kind of connection; each has been used."""
    direct, watch, wakeups = Direct(site, "SELECT 1"), watch_log(site), NotifyWatch(site, SILENT_SECONDS)

    def ask() -> None:
        with direct.connected() as connection:
            connection.exec_driver_sql("SELECT 1")

    def listen() -> None:
        try:
            wakeups.keep()
        except StoreUnavailableError:
            wakeups.close()
            raise

    made: list[Callable[[], object]] = [ask, watch.changed, listen]
    for use in made:
        use()
    return made


def test_the_close_of_a_lost_connection_logs_nothing(
    site: Engine, admin: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    used = uses(site)
    end_others(admin)
    for use in used:
        with pytest.raises(StoreUnavailableError):
            use()
    assert not caplog.records


def test_a_connection_that_is_lost_at_the_start_of_a_stream_leaves_no_open_cursor(
    site: Engine, admin: Connection
) -> None:
    def stream() -> None:
        with reading(site) as connection:
            connection.exec_driver_sql("SELECT 1")
            end_others(admin)
            connection.execution_options(stream_results=True).exec_driver_sql("SELECT 2")

    with pytest.raises(StoreUnavailableError):
        stream()
    # An open cursor warns here, and each warning fails a test.
    gc.collect()


def test_a_closed_connection_has_no_server_process(site: Engine, admin: Connection) -> None:
    held = held_connection(site)
    process = held.execute(text("SELECT pg_backend_pid()")).scalar_one()
    close_held(held)
    close_held(held)
    assert held.closed
    there = text("SELECT 1 FROM pg_stat_activity WHERE pid = :process")
    eventually(lambda: not admin.execute(there, {"process": process}).all())
