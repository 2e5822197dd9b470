"""The `Dialect` port: the operations that differ between databases; see `queues.database.dialects` for the choice.

The parts: `Statements` and `Transactions` of everyday work, the `Setup` of engines and tables, `Cuts` and `Standbys`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from sqlalchemy import (
    URL,
    ColumnElement,
    CompoundSelect,
    Connection,
    Delete,
    Engine,
    Insert,
    MetaData,
    Select,
    Table,
    TableClause,
    TextClause,
    Update,
)

from queues.database.grantees import Grantee
from queues.database.standby_facts import StandbyFacts
from queues.positions import Visibility

#: A statement that is a constant of its module, so that it is compiled only once.
Executed = Select[Any] | CompoundSelect[Any] | Insert | Update | Delete | TextClause
#: A statement with the values of its columns and bind parameters: numbers, texts and bytes.
Statement = tuple[Executed, Mapping[str, object]]

#: Execution option of a transaction for reading: engines of `queues.create_engine` then take no write lock.
READING: Final = "lrq_reading"


class Statements(Protocol):
    """Statements, each carried out in the fastest way of the driver.

    *last*: no statement follows in the transaction, so the method may commit the transaction at once. The caller
    commits in any case.
    """

    def bulk_insert(
        self, connection: Connection, table: Table, columns: Sequence[str], rows: Iterable[Sequence[object]]
    ) -> None:
        """Insert *rows*, each with its values in the order of *columns*."""
        ...

    def bulk_insert_columns(
        self,
        connection: Connection,
        table: Table,
        columns: Mapping[str, Sequence[object]],
        then: Sequence[Statement] = (),
        *,
        first: Sequence[Statement] = (),
        last: bool = False,
    ) -> list[Sequence[tuple[Any, ...]]]:
        """Insert at least one row, given as the values of each column.

        Carry out *first* before the insertion and *then* after it, as `run_all` does. Return the rows of *first*.
        """
        ...

    def is_at_once(self, rows: int, size: int) -> bool:
        """Tell whether one message carries all: *rows* new rows of *size* bytes, their statements, the commit."""
        ...

    def bulk_select(
        self,
        connection: Connection,
        wanted: Select[Any] | CompoundSelect[Any],
        values: Mapping[str, object] | None = None,
    ) -> Sequence[tuple[Any, ...]]:
        """Return the rows of *wanted*; their values are numbers, texts and bytes.

        *values* are the values of the bind parameters; give them if *wanted* is a constant of its module.
        """
        ...

    def run(self, connection: Connection, change: Insert | Update, values: Mapping[str, object]) -> int:
        """Carry out *change* with *values*; return the number of changed rows."""
        ...

    def run_all(
        self, connection: Connection, statements: Sequence[Statement], *, last: bool = False
    ) -> list[Sequence[tuple[Any, ...]]]:
        """Carry out *statements* one after the other, in as few messages as possible; return the rows of each."""
        ...

    def now_us(self, connection: Connection) -> int:
        """Return the database's time in microseconds since 1970: one clock for all processes of the database."""
        ...

    @property
    def present_us(self) -> ColumnElement[int]:
        """The time of `now_us` as an expression, read when a statement that contains the expression runs."""
        ...


class Transactions(Protocol):
    """Operations at the beginning, in the middle and at the end of a transaction."""

    @property
    def one_writer(self) -> bool:
        """Whether only one transaction can write at a time, while the others poll for its end."""
        ...

    @property
    def one_state(self) -> Mapping[str, object]:
        """Execution options for a transaction whose statements all see the same state of the database."""
        ...

    @property
    def durable_commit(self) -> Sequence[Statement]:
        """Statements that make the commit of their transaction wait for the disk; none if every commit waits."""
        ...

    def begin_write(self, connection: Connection, *, briefly: bool = False) -> None:
        """Prepare a new transaction for writing, so that it never waits between reading and writing.

        *briefly*: the database ends the transaction if the process stops; ignored by a database without such a limit.
        """
        ...

    def hasten_commit(self, connection: Connection) -> bool:
        """Let the transaction commit without waiting for the disk; return False if the database cannot."""
        ...

    def keep(self, connection: Connection, *tables: str) -> None:
        """Prevent truncating, rewriting or altering of *tables* (`name` or `schema.name`) until the transaction ends.

        A transaction with one state calls `keep` first: a state from before a truncation sees the table empty.
        """
        ...

    def commits_alone(self, connection: Connection) -> bool:
        """Tell whether *connection*, inside a transaction of SQLAlchemy, commits every statement separately."""
        ...

    def presence(self, *, durably: bool) -> Sequence[ColumnElement[Any]]:
        """Return columns whose selection marks a transaction with its lease (parameters `name` and `held`).

        A successor finds the transaction by this mark: see `end_older`. *durably*: selecting them also makes the commit
        durable, like `durable_commit`.
        """
        ...

    def end_older(self, engine: Engine, name: str, generation: int, idle: float) -> None:
        """End transactions marked with another generation of the lease *name* and idle for *idle* seconds."""
        ...

    def end_idle(self, engine: Engine, seconds: float) -> None:
        """Make the database end transactions of *engine*, and their connections, after *seconds* without a statement.

        A process that stops inside a transaction then cannot hold a lock against its successor.
        """
        ...

    def limit_lock_wait(self, connection: Connection, seconds: int) -> None:
        """Let each wait for a row of this transaction end after *seconds* with `StoreUnavailableError`.

        SQLite waits for its write lock only, as long as its connections always do.
        """
        ...

    def reading_limits(self, statement: int, lock: int) -> Sequence[TextClause]:
        """Return statements that make a new transaction read-only and limit its statements and lock waits, in seconds.

        Empty for a database whose readers never keep a writer waiting.
        """
        ...


class Setup(Protocol):
    """Engines and tables."""

    @property
    def own_tables(self) -> MetaData:
        """The tables that only this database has."""
        ...

    @property
    def has_schemas(self) -> bool:
        """Whether the tables may stand in a schema of their own."""
        ...

    def preamble(self, schema: str | None) -> str:
        """Return SQL to run before a DBA creates the tables in *schema* (None: the first of the search path)."""
        ...

    def postamble(self, schema: str | None) -> str:
        """Return SQL to run after a DBA has removed the tables from *schema*: it drops an empty schema."""
        ...

    def prepare(self, engine: Engine) -> None:
        """Give each new connection of *engine* the settings of lrq's own processes."""
        ...

    def connect_within(self, url: URL, seconds: int) -> Mapping[str, object]:
        """Return driver arguments that limit the time to connect; none if *url* has its own limit."""
        ...

    def connect_as(self, url: URL, name: str) -> Mapping[str, object]:
        """Return driver arguments that give connections a *name* for administrators; none if *url* has a name."""
        ...

    def exclusive(self, engine: Engine, schema: str | None = None) -> AbstractContextManager[Connection]:
        """Open a transaction; exclusive transactions on the same database never overlap, in all processes.

        Names are those of *schema*, as in `migrating`. Raises `ConfigurationError` for a version of the database that
        is too old.
        """
        ...

    def migrating(self, connection: Connection, schema: str | None = None) -> AbstractContextManager[None]:
        """Make the open transaction of *connection* exclusive until it ends, and wait only briefly for tables.

        Within the block, names are those of *schema*, which is created if missing. None changes no names. Raises the
        error of `exclusive`.
        """
        ...

    def drop_schema(self, connection: Connection, schema: str) -> None:
        """Drop *schema* if it is empty and the role may drop it."""
        ...

    def grants(self, role: str, part: Grantee, schema: str | None, *, search_path: bool) -> list[str]:
        """Return the statements that give *role* the rights of *part* on the tables in *schema*.

        With *search_path*, new connections of *role* to this database find the names of *schema* too. Raises
        `ConfigurationError` for a database without roles.
        """
        ...

    def own_schema(self, connection: Connection) -> str:
        """Return the schema in which *connection* finds the tables; empty if it finds none."""
        ...

    def owner(self, connection: Connection) -> str | None:
        """Return the role that owns the tables if the role of *connection* may not act as that role; otherwise None."""
        ...

    def has_role(self, connection: Connection, role: str) -> bool:
        """Tell whether the database has *role*."""
        ...

    def hidden_in(self, connection: Connection) -> str | None:
        """Return the schema with lrq's tables if *connection* does not find them by their names; otherwise None."""
        ...

    def borrow(self, driver: object) -> Engine:
        """Return an engine whose only connection is *driver*, an open connection that an application owns.

        Raises `ConfigurationError` for a driver's connection that lrq does not support.
        """
        ...

    def lacks(self, connection: Connection) -> list[str]:
        """Name the missing parts of the schema that are neither tables nor columns."""
        ...

    def untriggered(self, connection: Connection) -> list[str]:
        """Name the segments of the send log on which the ordering trigger does not always fire."""
        ...

    def incarnation(self, connection: Connection) -> str:
        """Return a text that changes when the database is restored, promoted or copied: see `lrq_branches`."""
        ...


@dataclass(frozen=True, slots=True)
class PinnedState:
    """A state of the database, which `Cuts.read_at` opens by `name`; `visibility` covers its commits.

    `holder` is the connection that keeps the state available; None if the state needs no connection.
    """

    name: str
    visibility: Visibility
    holder: Connection | None = None


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

        Raises `LookupError`, or an error of the driver, if no such state is pinned.
        """
        ...

    def estimate_rows(self, connection: Connection, table: TableClause) -> int:
        """Return the approximate number of rows of *table*, without reading them; 0 if unknown."""
        ...

    def extent(self, connection: Connection, table: Table) -> tuple[int, int] | None:
        """Return the place of the first row in *table* and the place after the last row; None without places.

        A place is a block on PostgreSQL and a rowid on SQLite.
        """
        ...

    def between(self, low: int | None, high: int | None) -> list[TextClause]:
        """Return conditions for rows whose place is from *low* to before *high*; None is an open end."""
        ...


class Standbys(Protocol):
    """The standby servers of the database."""

    def standbys(self, connection: Connection) -> StandbyFacts | None:
        """Return the facts about synchronous standby servers now; None for a database that has none."""
        ...


class Dialect(Statements, Transactions, Setup, Cuts, Standbys, Protocol):
    """Everything that differs between the databases, except the stores of the queues."""
