"""Use the open connection of an application, of SQLAlchemy or of Django, without ending its transaction."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine

from queues.database import dialects
from queues.database.dialect import Dialect
from queues.database.engine_check import described
from queues.database.orm_sessions import is_session
from queues.errors import NotInTransactionError, UsageError


@contextmanager
def lent(given: object, what: str) -> Iterator[tuple[Connection, Dialect]]:
    """Yield the connection of an application as one of SQLAlchemy, in the application's open transaction.

    *given* is SQLAlchemy's connection or session, or Django's connection. *what* names the call, such as
    `queues.upgrade`. The block neither commits nor rolls back nor closes.

    Raises `UsageError` for any other object, and `NotInTransactionError` for a connection in autocommit. Raises
    `ConfigurationError` for a database or driver that lrq does not support.
    """
    if hasattr(given, "ensure_connection") and hasattr(given, "vendor"):
        with _of_django(given) as connection:
            yield connection, in_transaction(connection, what)
    else:
        connection = _of_sqlalchemy(given, what)
        yield connection, in_transaction(connection, what)


@contextmanager
def _of_django(given: Any) -> Iterator[Connection]:  # noqa: ANN401 - Django need not be installed
    dialect = dialects.named(given.vendor)
    given.ensure_connection()
    with dialect.borrow(given.connection).connect() as connection:
        yield connection


def _of_sqlalchemy(given: object, what: str) -> Connection:
    if is_session(given):
        return given.connection()
    match given:
        case Connection():
            return given
        case Engine():
            raise UsageError(
                f"{what} works in a transaction of the application: pass a connection of the engine, "
                "or call queues.initialize(engine, site_id=...)"
            )
    if hasattr(given, "run_sync"):
        raise UsageError(f"the connection is asynchronous: write `await connection.run_sync({what}, ...)`")
    raise UsageError(f"{what} needs a connection of SQLAlchemy or Django, not {described(given)}")


def in_transaction(connection: Connection, what: str) -> Dialect:
    """Begin a transaction unless there is one, and return the dialect; *what* names the call.

    Raises `NotInTransactionError` for a connection in autocommit.
    """
    dialect = dialects.find(connection) or dialects.of(connection)
    if not connection.in_transaction():
        connection.begin()
    if dialect.commits_alone(connection):
        raise NotInTransactionError(
            f"{what} needs a transaction, but this connection commits every statement by itself: "
            "begin a transaction, on a connection without autocommit"
        )
    return dialect
