"""Read in the open transaction of a connection of SQLAlchemy, psycopg, sqlite3 or Django, without beginning one."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection
from sqlalchemy.orm import Session, scoped_session

from lr_client.connections.kinds import ConnectionKind, kind_of
from queues.database import dialects
from queues.database.dialect import Dialect
from queues.database.engine_check import described, require_connection
from queues.errors import UsageError
from queues.send_log.sqlite.outbox import first_written_id
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
    find = _FINDERS.get(kind_of(given) or ConnectionKind.SQLALCHEMY)
    if find is None:
        raise UsageError(f"{described(given)} is asynchronous: `transmitted` takes the synchronous kind")
    return find(given)


def _of_sqlalchemy(given: Any) -> OpenTransaction | None:  # noqa: ANN401 - any object, to be refused here
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

    return OpenTransaction(dialects.find(connection) or dialects.of(connection), read, first_written_id(connection))


def _of_sqlite(connection: sqlite3.Connection) -> OpenTransaction | None:
    def read(statement: str) -> Sequence[Sequence[Any]]:
        with closing(connection.cursor()) as cursor:
            # The connection's own kind of rows may be no tuples.
            cursor.row_factory = None
            return cursor.execute(statement).fetchall()

    return OpenTransaction(dialects.SQLITE, read) if connection.in_transaction else None


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


_FINDERS: Final[Mapping[ConnectionKind, Callable[[Any], OpenTransaction | None]]] = {
    ConnectionKind.SQLALCHEMY: _of_sqlalchemy,
    # `require_connection` has the sentence for the asynchronous sessions, too.
    ConnectionKind.ASYNC_SQLALCHEMY: _of_sqlalchemy,
    ConnectionKind.PSYCOPG: _of_psycopg,
    ConnectionKind.SQLITE3: _of_sqlite,
    ConnectionKind.DJANGO: _of_django,
}
