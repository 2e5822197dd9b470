"""Errors of a driver that is used directly, as SQLAlchemy raises them."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, exc


@contextmanager
def usual_errors(connection: Connection) -> Iterator[None]:
    """Raise SQLAlchemy's errors from code that uses the driver directly."""
    driver = connection.dialect.loaded_dbapi.Error
    try:
        yield
    except driver as error:
        raise exc.DBAPIError.instance(None, None, error, driver, dialect=connection.dialect) from error
