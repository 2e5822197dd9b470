"""What goes past SQLAlchemy raises what everything else does."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, exc


@contextmanager
def usual_errors(connection: Connection) -> Iterator[None]:
    """Let errors of what goes past SQLAlchemy look like those of all other statements."""
    driver = connection.dialect.loaded_dbapi.Error
    try:
        yield
    except driver as error:
        raise exc.DBAPIError.instance(None, None, error, driver, dialect=connection.dialect) from error
