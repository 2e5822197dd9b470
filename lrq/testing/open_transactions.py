"""Read in the open transaction of a connection of SQLAlchemy, psycopg, sqlite3 or Django, without beginning one."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any, NamedTuple

from sqlalchemy import Connection
from sqlalchemy.orm import Session, scoped_session

from queues.database import dialects
from queues.database.dialect import Dialect
from queues.database.engine_check import require_connection
from queues.send_log.sqlite.outbox import first_id
from queues.send_log.uncommitted import Read

#: libpq's state of a connection without a transaction.
_IDLE = 0


class OpenTransaction(NamedTuple):
    """The database of an open transaction and a function that reads in it; for `first_id` see `uncommitted`."""

    dialect: Dialect
    read: Read
    first_id: int = 1


def open_transaction(given: object) -> OpenTransaction | None:
    """Return the open transaction of a session or connection; None without one, because a look should not begin one.

    Pending changes of a session are flushed. Raises `UsageError` for any other object, and for an asynchronous one.
    """
    if isinstance(given, sqlite3.Connection):
        return OpenTransaction(dialects.SQLITE, _sqlite_reader(given)) if given.in_transaction else None
    if _is(given, "psycopg", "Connection"):
        return _of_psycopg(given)
    if hasattr(given, "ensure_connection") and hasattr(given, "vendor"):
        return _of_django(given)
    return _of_sqlalchemy(given)


def _of_sqlalchemy(given: object) -> OpenTransaction | None:
    given = given() if isinstance(given, scoped_session) else given
    if isinstance(given, Session):
        if given.in_transaction():
            given.flush()
        elif not isinstance(bind := given.get_bind(), Connection):
            return None
        else:
            given = bind
    connection = require_connection(given, "transmitted")
    is_idle = not getattr(connection.connection.dbapi_connection, "in_transaction", True)
    if not connection.in_transaction() or is_idle:
        return None

    def read(statement: str) -> Sequence[Sequence[Any]]:
        return connection.exec_driver_sql(statement).all()

    return OpenTransaction(dialects.of(connection), read, first_id(connection))


def _sqlite_reader(connection: sqlite3.Connection) -> Read:
    def read(statement: str) -> Sequence[Sequence[Any]]:
        with closing(connection.cursor()) as cursor:
            # The connection's own kind of rows may be no tuples.
            cursor.row_factory = None
            return cursor.execute(statement).fetchall()

    return read


def _of_psycopg(connection: Any) -> OpenTransaction | None:  # noqa: ANN401 - psycopg need not be installed
    from psycopg import Cursor
    from psycopg.rows import tuple_row

    def read(statement: str) -> Sequence[Sequence[Any]]:
        with Cursor(connection, row_factory=tuple_row) as cursor:
            return cursor.execute(statement.encode()).fetchall()

    return None if connection.info.transaction_status == _IDLE else OpenTransaction(dialects.POSTGRESQL, read)


def _of_django(connection: Any) -> OpenTransaction | None:  # noqa: ANN401 - Django has no types
    def read(statement: str) -> Sequence[Sequence[Any]]:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            rows: Sequence[Sequence[Any]] = cursor.fetchall()
            return rows

    dialect = dialects.named(connection.vendor)
    is_open = connection.in_atomic_block or not connection.get_autocommit()
    return OpenTransaction(dialect, read) if is_open else None


def _is(given: object, library: str, name: str) -> bool:
    return any(kind.__module__.partition(".")[0] == library and kind.__name__ == name for kind in type(given).__mro__)
