"""The part of the `Dialect` port for cuts: the application's tables at one state, in ranges of rows."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, Engine, Table, TableClause, TextClause

from queues.positions import Visibility


@dataclass(frozen=True, slots=True)
class PinnedState:
    """A state of the database, which `Cuts.read_at` opens by `name`; `visibility` covers its commits.

    `holder` is the connection that keeps the state available; None if the state needs no connection.
    """

    name: str
    visibility: Visibility
    holder: Connection | None = None


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table that stores rows of the table asked for: this table itself, a partition, or a table that inherits.

    `extent` has the place of the first row and the place after the last one; None without places. With `only`, rows of
    tables that inherit from the stored one do not count.
    """

    name: str
    schema: str | None
    extent: tuple[int, int] | None
    only: bool = False


class Cuts(Protocol):
    """Reading the application's tables at one state, in ranges of rows."""

    def pin_cut(
        self, engine: Engine, *, folder: Path | None, check: Callable[[], None]
    ) -> AbstractContextManager[PinnedState]:
        """Keep the present state of the database readable until the block ends; writers continue.

        SQLite copies the database into *folder* (None: the system's temporary folder). During the copy, *check* is
        called now and then, and may raise to cancel. Raises `StoreUnavailableError` if the copy fails.
        """
        ...

    def read_at(self, engine: Engine, name: str) -> AbstractContextManager[Connection]:
        """Open a read-only connection, in a transaction, at a pinned state, from any process of the machine.

        Raises `LookupError`, or an error of the driver, if no such state is pinned. On PostgreSQL the end of the block
        raises `SnapshotFailedError` if a table was changed before it was read.
        """
        ...

    def require_unchanged(self, connection: Connection) -> None:
        """Check a connection of `read_at` before the end of its block; raises `SnapshotFailedError` as the end does."""
        ...

    def hold(self, connection: Connection, table: str) -> None:
        """Prevent truncating, rewriting or altering of *table*, or of a view, until the holder's transaction ends.

        *table* is a `name` or `schema.name`.
        """
        ...

    def estimate_rows(self, connection: Connection, table: TableClause) -> int:
        """Return the approximate number of rows of *table*, without reading them; 0 if unknown."""
        ...

    def stored_tables(self, connection: Connection, table: Table) -> list[StoredTable]:
        """Return the tables that store the rows of *table* at the state of *connection*.

        A place is a block on PostgreSQL and a rowid on SQLite. Raises `SnapshotFailedError` if a table is gone.
        """
        ...

    def between(self, low: int | None, high: int | None) -> list[TextClause]:
        """Return conditions for rows whose place is from *low* to before *high*; None is an open end."""
        ...
