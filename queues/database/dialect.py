"""The `Dialect` port: the operations that differ between databases; see `queues.database.dialects` for the choice.

The parts: `Statements` and `Transactions` of everyday work, the `Setup` of engines and tables, `Cuts`, `Standbys`,
`LockWaits`, `FollowTriggers` and `CopiedTableStatements`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    Delete,
    Engine,
    Insert,
    Select,
    Table,
    TextClause,
    Update,
)

from queues.database.copied_table import CopiedTable, CopyRule, RowImage
from queues.database.cuts_port import Cuts
from queues.database.followed_rows import FollowArguments, FollowedRows, FollowedTable
from queues.database.lock_waits import LockWaits
from queues.database.setup_port import Setup
from queues.database.standby_facts import StandbyFacts

#: A statement that is a constant of its module, so that it is compiled only once.
Executed = Select[Any] | CompoundSelect[Any] | Insert | Update | Delete | TextClause
#: A statement with the values of its columns and bind parameters: numbers, texts and bytes.
Statement = tuple[Executed, Mapping[str, object]]

#: Execution option of a transaction for reading: engines of `queues.create_engine` then take no write lock.
READING: Final = "lrq_reading"
#: Execution option of an engine: the seconds after which PostgreSQL ends its brief transactions, if less than usual.
BRIEF_SECONDS: Final = "lrq_brief_seconds"


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

        Carry out *first* before the insertion and *then* after it, as `run_all` does. Return the rows of both.
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

    def each_state(self, connection: Connection) -> Mapping[str, object]:
        """Execution options for a transaction whose statements each see all earlier commits; none if these are usual.

        The default of the database may be another one, and so may be that of the role.
        """
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

    def refuse_hidden_rows(self, engine: Engine) -> None:
        """Make each statement of *engine* fail that row level security would keep from some rows."""
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

    def write_aside(self, connection: Connection) -> None:
        """Let the database write a temporary file beside its tables, so that a full disk raises its error.

        The settings of the transaction change. Nothing happens where the room of the disk is known without that.
        """
        ...


class Standbys(Protocol):
    """The standby servers of the database."""

    def standbys(self, connection: Connection) -> StandbyFacts | None:
        """Return the facts about synchronous standby servers now; None for a database that has none."""
        ...

    @property
    def standby_setting(self) -> ColumnElement[str]:
        """The setting that asks for synchronous standby servers, as an expression; empty if there is none."""
        ...


class FollowTriggers(Protocol):
    """The tables that clients follow by triggers."""

    def follow(self, connection: Connection, wanted: FollowArguments) -> None:
        """Create the triggers, in place of those of an earlier call for the same table and client.

        Raises `UsageError` for a table or a column that cannot be followed so.
        """
        ...

    def unfollow(self, connection: Connection, table: str, client: str) -> None:
        """End the triggers of *table*; raise `UsageError` if *client* does not follow the table."""
        ...

    def followed_rows(self, connection: Connection, client: str, site: str) -> list[FollowedRows]:
        """Return the queries of the rows for *site* that *client* follows.

        A table comes after those to which its foreign keys refer, else the order is that of the names.

        Until the end of the transaction, all values have the same texts as in the entries.
        """
        ...

    def followed_tables(self, connection: Connection) -> list[FollowedTable]:
        """Return the tables that clients follow, in the order of their names."""
        ...

    def naming_origin(self, site: str) -> Sequence[Statement]:
        """Return statements that name *site* as the origin of all changes until the end of the transaction.

        The triggers read it for the parameter `origin` of `lrq_follow`. Empty for a database without such settings.
        """
        ...


class CopiedTableStatements(Protocol):
    """Tables of the application that copy followed tables; *rule* tells which rows *source* may change."""

    def copied_table(self, connection: Connection, name: str) -> CopiedTable:
        """Return the table *name*; raise `ConfigurationError` if no such table can be read and written whole."""
        ...

    def put_rows(
        self,
        connection: Connection,
        table: CopiedTable,
        columns: tuple[str, ...],
        rows: Sequence[RowImage],
        rule: CopyRule,
        source: str,
    ) -> int:
        """Insert *rows*, each in place of the row of its key; return the number of rows that were written.

        Only *columns* are written, and the source column. On PostgreSQL no two rows have one key.
        """
        ...

    def delete_rows(
        self, connection: Connection, table: CopiedTable, rows: Sequence[RowImage], rule: CopyRule, source: str
    ) -> None:
        """Delete the source's rows with the keys of *rows*; `greatest` is not compared."""
        ...

    def clear_rows(self, connection: Connection, table: CopiedTable, rule: CopyRule, source: str) -> None:
        """Delete all rows of the source; without a source column, all rows."""
        ...


class Dialect(
    Statements, Transactions, Setup, Cuts, Standbys, LockWaits, FollowTriggers, CopiedTableStatements, Protocol
):
    """Everything that differs between the databases, except the stores of the queues."""
