"""Engines with the settings that lrq's own processes use."""

import sqlite3
import threading
from typing import Any

from sqlalchemy import URL, Connection, Engine, event
from sqlalchemy import create_engine as _create_engine
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.pool import ConnectionPoolEntry

from queues.clock import SYSTEM_CLOCK, jittered
from queues.errors import MissingDependencyError
from queues.transactions import READING

#: How long a statement waits for SQLite's one writer, in seconds.
BUSY_TIMEOUT = 30.0
_LONGEST_RETRY = 0.02


def create_engine(url: str | URL, **options: Any) -> Engine:  # noqa: ANN401 - passed on as they are
    """Return `sqlalchemy.create_engine(url, **options)`; on SQLite with WAL, a busy timeout and BEGIN IMMEDIATE.

    Its errors do not repeat the values of statements, which may be payloads (`hide_parameters`).
    Raises `MissingDependencyError` when the database's driver is not installed.
    """
    try:
        engine = _create_engine(url, **{"hide_parameters": True, **options})
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"the driver {error.name!r} of this database is not installed: pip install 'lrq[postgres]'"
        ) from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def end_idle_transactions(engine: Engine, seconds: float) -> None:
    """Let PostgreSQL end transactions of *engine* that stand still for so long, and their connections with them.

    A process that is stopped in the middle of one then keeps nothing locked that its successor needs.
    """
    if engine.dialect.name == "postgresql":
        limit = f"SET idle_in_transaction_session_timeout = {max(int(seconds * 1000), 1)}"

        @event.listens_for(engine, "connect")
        def _set_limit(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
            cursor = connection.cursor()
            cursor.execute(limit)
            cursor.close()
            connection.commit()


def _prepare_sqlite(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    # The driver must not begin by itself: `_begin_sqlite` does.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT * 1000)}")
    use_wal(cursor)
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def use_wal(cursor: DBAPICursor) -> None:
    """Put the SQLite file of *cursor* into WAL mode, waiting up to `BUSY_TIMEOUT` for others that do the same.

    SQLite refuses at once, whatever its busy timeout, while another connection is about to change the mode too.
    """
    until = SYSTEM_CLOCK.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or SYSTEM_CLOCK.monotonic() >= until:
                raise
            SYSTEM_CLOCK.wait(threading.Event(), jittered(_LONGEST_RETRY))
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("isolation_level") != "AUTOCOMMIT":
        connection.exec_driver_sql("BEGIN" if options.get(READING) else "BEGIN IMMEDIATE")
