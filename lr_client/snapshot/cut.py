"""The pinned cut: the one database state from which a snapshot is read, and its position in the log.

The log continues exactly after the cut. The state contains the entries up to the newest tick inside the cut, and those
that the cut's visibility covers. All other entries are sent as the log.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Connection, Engine, exc

from queues.database import dialects
from queues.database.transactions import mapped_errors
from queues.errors import SnapshotFailedError
from queues.positions import Position, Visibility
from queues.send_log.history import current_branch
from queues.send_log.reads import newest_tick, trimmed_seq
from queues.send_log.ring.member_rows import rank_at


@dataclass(frozen=True, slots=True)
class Cut:
    """One state of the database; `base` is the position of that state in the log.

    `name` identifies the state: a snapshot id on PostgreSQL, the path of a copy on SQLite. The name is
    valid while the provider runs.
    """

    base: Position
    name: str
    engine: Engine
    holder: Connection | None = field(default=None, repr=False)
    #: The connections of `connect` that are open.
    reading: list[Connection] = field(default_factory=list, repr=False, init=False)
    held: ExitStack = field(default_factory=ExitStack, repr=False)

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Open a read-only connection in a transaction that sees exactly this state; several may be open at once.

        On PostgreSQL the block raises `SnapshotFailedError` at its end if a table was changed before its first read.
        Such changes empty or replace a table, or take a partition. The completion checks the blocks that are open.
        """
        with connect_at(self.engine, self.name) as connection:
            self.reading.append(connection)
            try:
                yield connection
            finally:
                self.reading.remove(connection)

    def require_unchanged(self) -> None:
        """Check the tables that open connections have read; raises `SnapshotFailedError` as their blocks do."""
        for connection in tuple(self.reading):
            if connection.in_transaction():
                with mapped_errors():
                    dialects.of(connection).require_unchanged(connection)

    def keep(self, table: str) -> None:
        """Lock *table* (`name` or `schema.name`) against truncation, rewriting and altering until the cut is closed.

        On PostgreSQL such a change shows even to readers of an older state; a copy on SQLite is not affected.
        Call from one thread at a time.
        """
        if self.holder is None or self.holder.closed:
            return
        with mapped_errors(), self.holder.begin_nested():
            dialects.of(self.holder).hold(self.holder, table)

    def close(self) -> None:
        """Release the state: later reads at this cut fail. A second call is harmless."""
        self.held.close()

    def __str__(self) -> str:
        """Return `name`."""
        return self.name


@contextmanager
def open_cut(engine: Engine, *, folder: Path | None = None, check: Callable[[], None] = lambda: None) -> Iterator[Cut]:
    """Pin the present state of the database until the end of the block; writers continue.

    *check* is called while a SQLite database is copied into *folder*; an exception of *check* ends the copy. Raises
    `StoreUnavailableError` when the database cannot be read or copied, `NotInitializedError` without lrq tables.
    """
    with ExitStack() as held:
        with mapped_errors():
            dialect = dialects.of(engine)
            state = held.enter_context(dialect.pin_cut(engine, folder=folder, check=check))
            reader = nullcontext(state.holder) if state.holder else dialect.read_at(engine, state.name)
            with reader as connection:
                base = _base(connection, state.visibility)
        yield Cut(base, state.name, engine, state.holder, held)


def _base(connection: Connection, mark: Visibility) -> Position:
    # The site's branch, not the tick's: after a promotion the log continues after the last tick on a new branch.
    branch = current_branch(connection)
    tick = newest_tick(connection)
    # A mark is valid on its branch only, which ends with each leader of a ring. There all entries are in ticks.
    cut = str(mark) if rank_at(connection) is None else ""
    return Position(branch, tick.end_seq if tick is not None else trimmed_seq(connection), cut)


@contextmanager
def connect_at(engine: Engine, snapshot: str) -> Iterator[Connection]:
    """Connect to the cut named *snapshot*, from any process; raise `SnapshotFailedError` when the cut is closed."""
    with ExitStack() as held:
        try:
            with mapped_errors():
                connection = held.enter_context(dialects.of(engine).read_at(engine, snapshot))
        except (LookupError, exc.DBAPIError) as error:
            raise SnapshotFailedError(
                f"the cut {snapshot} is closed: read at a cut only while its provider is running"
            ) from error
        yield connection
