"""Errors of a driver that is used directly, as SQLAlchemy raises them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Connection, exc

#: PostgreSQL refuses a write, because the session began while writes were forbidden by default.
_READ_ONLY: Final = "25006"


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
    """Close the driver's connection after a write that PostgreSQL refuses as read-only; the error passes through.

    A session keeps the `default_transaction_read_only` of its beginning, and with several hosts its server. Only a new
    connection can learn of a change.
    """
    try:
        yield
    except exc.DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == _READ_ONLY:
            connection.invalidate(error)
        raise
