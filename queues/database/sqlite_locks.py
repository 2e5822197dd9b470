"""The locks of an SQLite file: WAL mode, the write lock at the beginning of a transaction, and the waits for both."""

import sqlite3
import threading
from contextlib import closing
from typing import Any, Final

from sqlalchemy import Connection, Engine, text
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

from queues.clock import SYSTEM_CLOCK, jittered
from queues.database.dialect import READING

#: How long a statement waits for SQLite's one writer, in seconds.
BUSY_TIMEOUT: float = 30.0
#: The shortest and the longest pause between two tries to get a lock, in seconds.
_SHORTEST_RETRY: Final = 0.0005
_LONGEST_RETRY: Final = 0.02
WAL: Final = "PRAGMA journal_mode = WAL"
BEGIN_IMMEDIATE: Final = "BEGIN IMMEDIATE"
#: A write without effect takes the write lock, however the engine begins transactions. Without the lock, a write after
#: a read could fail at once, because the busy timeout does not apply there.
TAKE_WRITE_LOCK: Final = text("UPDATE lrq_site SET site_id = site_id WHERE one IS NULL")

#: Takes the write lock in a transaction that has not read yet, also before the first migration. Nothing is left.
TAKE_WRITE_LOCK_ALONE: Final = "CREATE TABLE lrq_write_lock (one)", "DROP TABLE lrq_write_lock"


def prepare(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    """Set WAL, a busy timeout and durable commits for a new connection."""
    # Only `begin` may begin transactions, not the driver.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT * 1000)}")
    _use_wal(cursor)
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def begin(connection: Connection) -> None:
    """Begin a transaction: with the write lock, unless the connection only reads or commits each statement."""
    options = connection.get_execution_options()
    if options.get("isolation_level") == "AUTOCOMMIT":
        return
    if options.get(READING):
        connection.exec_driver_sql("BEGIN")
    else:
        _begin_immediate(connection)


def _begin_immediate(connection: Connection) -> None:
    """Begin with the write lock; wait for the lock up to the busy timeout of the connection.

    SQLite's own busy timeout tries again 1, 3, 8, 18, 33 and 53 ms after the first try. Between short transactions of
    others, a transaction would often meet another one at each try. Here the pauses are an eighth of the time waited.
    """
    began = SYSTEM_CLOCK.monotonic()
    driver: Any = connection.connection
    with closing(driver.cursor()) as cursor:
        longest: int = cursor.execute("PRAGMA busy_timeout").fetchone()[0]
        cursor.execute("PRAGMA busy_timeout = 0")
        try:
            while (waited := SYSTEM_CLOCK.monotonic() - began) <= longest / 1_000:
                try:
                    cursor.execute(BEGIN_IMMEDIATE)
                except sqlite3.OperationalError as error:
                    if not _is_busy(error):
                        break
                else:
                    return
                SYSTEM_CLOCK.wait(threading.Event(), jittered(min(max(waited / 8, _SHORTEST_RETRY), _LONGEST_RETRY)))
            # Once more through SQLAlchemy, which raises its own error.
            connection.exec_driver_sql(BEGIN_IMMEDIATE)
        finally:
            cursor.execute(f"PRAGMA busy_timeout = {longest}")


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _use_wal(cursor: DBAPICursor) -> None:
    """Put the file of *cursor* into WAL mode; wait up to `BUSY_TIMEOUT` while other processes do the same.

    The loop is needed: if two connections change the mode, SQLite refuses one at once, despite its busy timeout.
    """
    until = SYSTEM_CLOCK.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            cursor.execute(WAL)
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or SYSTEM_CLOCK.monotonic() >= until:
                raise
            SYSTEM_CLOCK.wait(threading.Event(), jittered(_LONGEST_RETRY))
        else:
            return


def enter_wal(engine: Engine) -> None:
    """Put the file of *engine* into WAL mode."""
    # SQLAlchemy would begin a transaction, in which the mode cannot change.
    with closing(engine.raw_connection()) as connection, closing(connection.cursor()) as cursor:
        if in_transaction(connection):
            cursor.execute("ROLLBACK")
        _use_wal(cursor)


def in_transaction(connection: PoolProxiedConnection) -> bool:
    """Tell whether the driver's connection is in a transaction."""
    return bool(getattr(connection.driver_connection, "in_transaction", False))
