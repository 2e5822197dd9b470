"""Errors of a driver that is used directly, as SQLAlchemy raises them."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Connection, exc

#: PostgreSQL refuses a write, because the session began while writes were forbidden by default.
_READ_ONLY: Final = "25006"

#: A row with this key exists, in the codes of both databases.
_DUPLICATE: Final = ("23505", "SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_ROWID")


def is_duplicate(error: exc.IntegrityError) -> bool:
    """Tell whether a row was refused because its key exists, and not by another constraint or a trigger."""
    codes = (getattr(error.orig, name, None) for name in ("sqlstate", "sqlite_errorname"))
    return any(code in _DUPLICATE for code in codes)


@contextmanager
def usual_errors(connection: Connection) -> Iterator[None]:
    """Raise SQLAlchemy's errors from code that uses the driver directly."""
    driver = connection.dialect.loaded_dbapi.Error
    try:
        yield
    except driver as error:
        raise exc.DBAPIError.instance(None, None, error, driver, dialect=connection.dialect) from error


@contextmanager
def replaced_if_read_only(connection: Connection) -> Iterator[None]:
    """Close the driver's connection after a write that the database refuses as read-only; the error passes through.

    A session of PostgreSQL keeps the `default_transaction_read_only` of its beginning, and with several hosts its
    server. SQLite opens a file without the right to write for reading, as long as the connection lives. Only a new
    connection can learn of a change.
    """
    try:
        yield
    except exc.DBAPIError as error:
        if _is_read_only(error.orig):
            connection.invalidate(error)
        raise


def _is_read_only(error: object) -> bool:
    if isinstance(error, sqlite3.OperationalError):
        # The upper bits tell the kind: a read-only folder, or a removed file.
        return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY
    return getattr(error, "sqlstate", None) == _READ_ONLY
