"""What differs between databases, one module each."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import CompoundSelect, Connection, Engine, Insert, Select, Table, Update

from queues.dialects import postgresql, postgresql_outbox, sqlite, sqlite_outbox
from queues.dialects.statements import Statement
from queues.errors import ConfigurationError
from queues.log.outbox import Write


class Dialect(Protocol):
    """What every database must offer to everyone; the log's own needs are in `queues.log.port`.

    *last*: nothing comes after it in the transaction, which may be committed at once; the caller commits all the same.
    """

    def bulk_insert(
        self, connection: Connection, table: Table, columns: Sequence[str], rows: Iterable[Sequence[object]]
    ) -> None:
        """Insert *rows* (in the order of *columns*) by the fastest way that the driver has."""
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
        """Insert at least one row, given as the values of each column, by the fastest way that the driver has.

        *first* is carried out before that and *then* afterwards, as by `run_all`. Return the rows of the *first* ones.
        """
        ...

    def is_at_once(self, rows: int, size: int) -> bool:
        """Tell whether so many new rows of so many bytes, the statements around them and the commit are one message."""
        ...

    def bulk_select(
        self,
        connection: Connection,
        wanted: Select[Any] | CompoundSelect[Any],
        values: Mapping[str, object] | None = None,
    ) -> Sequence[tuple[Any, ...]]:
        """Return the rows of *wanted*, numbers, texts and bytes, by the fastest way that the driver has.

        *values* are those of its bind parameters; give them for a statement that is a constant of its module.
        """
        ...

    def run(self, connection: Connection, change: Insert | Update, values: Mapping[str, object]) -> int:
        """Carry out *change* with *values* by the fastest way that the driver has; return how many rows it changed."""
        ...

    def run_all(
        self, connection: Connection, statements: Sequence[Statement], *, last: bool = False
    ) -> list[Sequence[tuple[Any, ...]]]:
        """Carry out *statements*, each by itself, with as few messages as possible; return the rows of each."""
        ...

    def now_us(self, connection: Connection) -> int:
        """The database's clock, in microseconds since 1970: one clock for all processes that share it."""
        ...


_DIALECTS: dict[str, Dialect] = {"sqlite": sqlite.DIALECT, "postgresql": postgresql.DIALECT}
_PSYCOPG = ("psycopg", "psycopg_async")
_OUTBOXES: dict[str, Write] = {"sqlite": sqlite_outbox.write, "postgresql": postgresql_outbox.write}


def of(bind: Engine | Connection) -> Dialect:
    """Return the dialect of an engine or connection; raise `ConfigurationError` for what we do not know."""
    name, driver = bind.dialect.name, bind.dialect.driver
    if name not in _DIALECTS:
        raise ConfigurationError(f"lrq works with SQLite and PostgreSQL, not with {name}: use another database URL")
    if name == "postgresql" and driver not in _PSYCOPG:
        raise ConfigurationError(
            f"lrq works with PostgreSQL through psycopg, not {driver}: begin the database URL with postgresql+psycopg://"
        )
    return _DIALECTS[name]


def outbox(connection: Connection) -> Write:
    """Return how entries are written on this connection; raise `ConfigurationError` for an unknown database."""
    of(connection)
    return _OUTBOXES[connection.dialect.name]
