"""Opening the log-entry queue of a database."""

from collections.abc import Sequence
from typing import Protocol

from sqlalchemy import Engine

from queues.dialects import postgresql_commits, sqlite_commits
from queues.dialects.postgresql_log import PostgresqlLog
from queues.dialects.sqlite_log import SqliteLog
from queues.log.doorbell import Readable
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


class LogWatch(CommitWatch, Protocol):
    """Tells cheaply whether there can be anything new in a log-entry queue."""

    @property
    def dozes(self) -> bool:
        """Whether who transmits tells; see `doze`."""
        ...

    @property
    def tellers(self) -> Sequence[Readable]:
        """What can be read when somebody tells."""
        ...

    def doze(self) -> bool:
        """Ask whoever transmits from now on to tell, until `wake`; False where that cannot be, or not just now.

        What is committed before is not told: look once more afterwards. A transaction that is prepared for a two-phase
        commit tells nothing.
        """
        ...

    def wake(self) -> None:
        """Let those who transmit be silent: telling costs them something. May be called twice."""
        ...


def open_log(engine: Engine, limits: Limits | None = None) -> Log:
    """Return the log-entry queue of *engine*'s database, with the limits of one tick."""
    if engine.dialect.name == "sqlite":
        return SqliteLog(engine, limits or Limits())
    return PostgresqlLog(engine, limits or Limits())


def watch_commits(engine: Engine) -> CommitWatch:
    """Return what tells whether anything was committed to *engine*'s database."""
    commits = sqlite_commits.DataVersion if engine.dialect.name == "sqlite" else postgresql_commits.SnapshotWatch
    return commits(engine)


def watch_log(engine: Engine) -> LogWatch:
    """Return what tells whether entries may have been committed to the log-entry queue of *engine*'s database."""
    log = sqlite_commits.LogVersion if engine.dialect.name == "sqlite" else postgresql_commits.LogWatch
    return log(engine)
