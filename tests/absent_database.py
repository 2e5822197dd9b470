"""A PostgreSQL database that takes no connections for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, text

import queues


@contextmanager
def absent(engine: Engine) -> Iterator[None]:
    """End all connections to the database of *engine*, and refuse new ones during the block."""
    engine.dispose()
    admin = queues.create_engine(engine.url.set(database="postgres"), isolation_level="AUTOCOMMIT")
    try:
        with admin.connect() as connection:
            _allow(connection, engine, "false")
            of_it = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name")
            connection.execute(of_it, {"name": engine.url.database})
            try:
                yield
            finally:
                _allow(connection, engine, "true")
    finally:
        admin.dispose()


def _allow(connection: Connection, engine: Engine, is_open: str) -> None:
    connection.execute(text(f'ALTER DATABASE "{engine.url.database}" ALLOW_CONNECTIONS {is_open}'))
