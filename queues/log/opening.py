"""Opening the log-entry queue of a database."""

from typing import Protocol

from sqlalchemy import Engine

from queues.dialects.postgresql_commits import LogWatch, SnapshotWatch
from queues.dialects.postgresql_log import PostgresqlLog
from queues.dialects.sqlite_log import DataVersion, SqliteLog
from queues.log.port import Limits, Log


class CommitWatch(Protocol):
    """Tells cheaply whether there can be anything new in a database. Not for several threads."""

    def changed(self) -> bool:
        """Tell whether others may have committed since the last call; True at the first.

        Raises `StoreUnavailableError` when the database cannot be asked.
        """
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


def open_log(engine: Engine, limits: Limits | None = None) -> Log:
    """Return the log-entry queue of *engine*'s database, with the limits of one tick."""
    if engine.dialect.name == "sqlite":
        return SqliteLog(engine, limits or Limits())
    return PostgresqlLog(engine, limits or Limits())


def watch_commits(engine: Engine) -> CommitWatch:
    """Return what tells whether anything was committed to *engine*'s database."""
    return DataVersion(engine) if engine.dialect.name == "sqlite" else SnapshotWatch(engine)


def watch_log(engine: Engine) -> CommitWatch:
    """Return what tells whether entries may have been committed to the log-entry queue of *engine*'s database."""
    return DataVersion(engine) if engine.dialect.name == "sqlite" else LogWatch(engine)
