"""The pinned cut: one state of the application's database that all of a snapshot is read at, and its log position.

The log continues exactly after it: entries up to the newest tick inside the cut, and those that the cut's mark covers,
are part of the state that is read; all others are sent as the log.
"""

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Connection, Engine, NullPool, create_engine, exc, select, text

from lr_client.cut_copy import consistent_copy
from queues import dialects
from queues.errors import SnapshotFailedError
from queues.log.sql import newest_tick, trimmed_seq
from queues.positions import Mark, Position, Snapshot
from queues.tables import log_head, site
from queues.transactions import map_error, mapped_errors


@dataclass(frozen=True, slots=True)
class Cut:
    """One state of the database. `base` is its place in the log.

    `snapshot` names the state for the database's own means: on PostgreSQL what `SET TRANSACTION SNAPSHOT` takes, on
    SQLite the path of a copy. It is good for as long as the provider runs.
    """

    base: Position
    snapshot: str
    engine: Engine
    holder: Connection | None = field(default=None, repr=False)
    held: ExitStack = field(default_factory=ExitStack, repr=False)

    def connect(self) -> AbstractContextManager[Connection]:
        """Open a read-only connection, in a transaction, that sees exactly this state; any number at a time."""
        return connect_at(self.engine, self.snapshot)

    def keep(self, table: str) -> None:
        """Until the cut is closed, let nobody truncate, rewrite or alter *table* (`name` or `schema.name`).

        PostgreSQL shows the effect of these even to those who read an older state; SQLite's copy never does. Not for
        several threads at once.
        """
        if self.holder is None or self.holder.closed:
            return
        quote = self.holder.dialect.identifier_preparer.quote
        name = ".".join(quote(part) for part in table.split("."))
        with mapped_errors(), self.holder.begin_nested():
            self.holder.exec_driver_sql(f"LOCK TABLE {name} IN ACCESS SHARE MODE")

    def close(self) -> None:
        """Let the database go on: nothing can be read at this state any more. Repeating it is harmless."""
        self.held.close()

    def __str__(self) -> str:
        """Return `snapshot`."""
        return self.snapshot


@contextmanager
def open_cut(engine: Engine, *, folder: Path | None = None, check: Callable[[], None] = lambda: None) -> Iterator[Cut]:
    """Pin the present state of the database until the end of the block; writers go on.

    *check* is called while a SQLite database is copied (into *folder*) and may raise to give up. Raises
    `StoreUnavailableError` when the database cannot be read or copied, `NotInitializedError` without lrq tables.
    """
    dialects.of(engine)
    with ExitStack() as held:
        with mapped_errors():
            cut = _pin_copy(engine, folder, check, held) if engine.dialect.name == "sqlite" else _pin(engine, held)
        yield cut


def _pin_copy(engine: Engine, folder: Path | None, check: Callable[[], None], held: ExitStack) -> Cut:
    path = held.enter_context(consistent_copy(engine, folder=folder, check=check))
    with _read_copy(path) as connection:
        last_id = connection.execute(select(log_head.c.last_id)).scalar_one()
        return Cut(_base(connection, Mark(high=last_id)), str(path), engine, held=held)


def _pin(engine: Engine, held: ExitStack) -> Cut:
    connection = held.enter_context(engine.connect()).execution_options(**_READ_AT_ONE_STATE)
    connection.detach()  # the pool has its place back
    held.enter_context(connection.begin())
    connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
    if (connection.dialect.server_version_info or ()) >= (17,):
        connection.exec_driver_sql("SET LOCAL transaction_timeout = 0")
    snapshot, window = connection.execute(_EXPORT).one()
    return Cut(_base(connection, Mark(window=Snapshot.parse(window))), snapshot, engine, connection, held)


def _base(connection: Connection, mark: Mark) -> Position:
    # Of the site, not of the tick: after a promotion the log goes on, under a new branch, where the last tick ended.
    branch = connection.execute(select(site.c.branch)).scalar_one()
    tick = newest_tick(connection)
    return Position(branch, tick.end_seq if tick is not None else trimmed_seq(connection), str(mark))


def connect_at(engine: Engine, snapshot: str) -> AbstractContextManager[Connection]:
    """Read at a cut by its name, in this process or another one; raise `SnapshotFailedError` when it is closed."""
    return _read_copy(Path(snapshot)) if engine.dialect.name == "sqlite" else _read_imported(engine, snapshot)


@contextmanager
def _read_copy(path: Path) -> Iterator[Connection]:
    if not path.exists():
        raise _closed(str(path))
    # Nobody writes to the copy: `immutable` spares its readers all locking.
    address = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    copy = create_engine("sqlite://", creator=lambda: sqlite3.connect(address, uri=True), poolclass=NullPool)
    with copy.connect() as connection:
        yield connection


@contextmanager
def _read_imported(engine: Engine, snapshot: str) -> Iterator[Connection]:
    if not re.fullmatch(r"[0-9A-Fa-f-]+", snapshot):
        raise _closed(snapshot)
    with ExitStack() as held:
        with mapped_errors():
            connection = held.enter_context(engine.connect()).execution_options(**_READ_AT_ONE_STATE)
            held.enter_context(connection.begin())
            try:
                connection.exec_driver_sql(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
            except exc.DBAPIError as error:
                raise map_error(error) or _closed(snapshot) from error
        yield connection


def _closed(snapshot: str) -> SnapshotFailedError:
    return SnapshotFailedError(f"the cut {snapshot} is closed: it can be read only while the provider is running")


_READ_AT_ONE_STATE: dict[str, object] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
_EXPORT = text("SELECT pg_export_snapshot(), pg_current_snapshot()::text")
