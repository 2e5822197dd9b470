"""PostgreSQL 14 and later, through psycopg 3."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Connection,
    Dialect,
    Engine,
    Insert,
    Select,
    Table,
    Update,
    literal_column,
    text,
)

from queues.database.dialect import Executed, Statement
from queues.database.driver_errors import usual_errors
from queues.database.left_out import failing_unless, require_stored, telling
from queues.database.postgresql.answers import executed
from queues.database.postgresql.binary_copy import binary_copy
from queues.database.postgresql.copied_tables import PostgresqlCopiedTables
from queues.database.postgresql.cuts import PostgresqlCuts
from queues.database.postgresql.followed_tables import PostgresqlFollowTriggers
from queues.database.postgresql.lock_waits import PostgresqlLockWaits
from queues.database.postgresql.pipeline import exchange
from queues.database.postgresql.prepared_statements import Array, Request, encoding_of
from queues.database.postgresql.setup import PostgresqlSetup
from queues.database.postgresql.standbys import PostgresqlStandbys
from queues.database.postgresql.transactions import PostgresqlTransactions

_PRESENT: Final = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_NOW = text(f"SELECT {_PRESENT}")


class PostgresqlDialect(
    PostgresqlTransactions,
    PostgresqlSetup,
    PostgresqlCuts,
    PostgresqlStandbys,
    PostgresqlLockWaits,
    PostgresqlFollowTriggers,
    PostgresqlCopiedTables,
):
    """See `queues.database.dialect.Dialect`; this class has the statements, its base classes the rest."""

    def bulk_insert(
        self, connection: Connection, table: Table, columns: Sequence[str], rows: Iterable[Sequence[object]]
    ) -> None:
        """Insert *rows* with binary COPY."""
        values = list(zip(*rows, strict=True))
        if values:
            self.bulk_insert_columns(connection, table, dict(zip(columns, values, strict=True)))

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
        """Insert rows with binary COPY; a few small rows go as arrays, in one message with the other statements."""
        types = _types(table, tuple(columns), connection.dialect)
        before, after = ([request(connection, *statement) for statement in some] for some in (first, then))
        rows = len(next(iter(columns.values())))
        # Only few rows are measured: looking at every value takes as long as writing it.
        if rows <= _FEW and self.is_at_once(rows, _payload_bytes(columns)):
            with telling(table.name):
                answers = exchange(connection, [*before, _as_arrays(table, types, columns), *after], last=last)
            return [answer.rows for place, answer in enumerate(answers) if place != len(before)]
        answers = exchange(connection, before) if before else []
        statement = f"COPY {table.name} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
        with usual_errors(connection), closing(connection.connection.cursor()) as cursor:
            with cursor.copy(statement) as copy:
                copy.write(binary_copy(types, list(columns.values()), encoding_of(connection)))
            require_stored(table.name, cursor.rowcount, rows)
        if after:
            answers += exchange(connection, after, last=last)
        return [answer.rows for answer in answers]

    def is_at_once(self, rows: int, size: int) -> bool:
        """Return True for few rows with few bytes."""
        return rows <= _FEW and size <= _FEW_BYTES

    def bulk_select(
        self,
        connection: Connection,
        wanted: Select[Any] | CompoundSelect[Any],
        values: Mapping[str, object] | None = None,
    ) -> Sequence[tuple[Any, ...]]:
        """Fetch the rows in the binary format, which needs no conversion of bytes."""
        if values is None:
            compiled = wanted.compile(dialect=connection.dialect)
            return fetch(connection, str(compiled), compiled.params)
        return exchange(connection, [request(connection, wanted, values)])[0].rows

    def run(self, connection: Connection, change: Insert | Update, values: Mapping[str, object]) -> int:
        """Carry out *change* without SQLAlchemy's own work per statement, which would take most of the time."""
        return exchange(connection, [request(connection, change, values)])[0].size

    def run_all(
        self, connection: Connection, statements: Sequence[Statement], *, last: bool = False
    ) -> list[Sequence[tuple[Any, ...]]]:
        """Carry out *statements* in one message to the server."""
        answers = exchange(connection, [request(connection, *statement) for statement in statements], last=last)
        return [answer.rows for answer in answers]

    def now_us(self, connection: Connection) -> int:
        """Return the server's time."""
        return int(connection.execute(_NOW).scalar_one())

    present_us: Final[ColumnElement[int]] = literal_column(_PRESENT, BigInteger())


#: Up to these limits, arrays are faster than COPY; 14 rows of a MB take 1.7 times as long as arrays (measured).
_FEW: Final = 64
_FEW_BYTES: Final = 128 * 1024


def _payload_bytes(columns: Mapping[str, Sequence[object]]) -> int:
    return sum(len(value) for column in columns.values() for value in column if isinstance(value, bytes))


def _as_arrays(table: Table, types: Sequence[str], columns: Mapping[str, Sequence[object]]) -> Request:
    arrays = [f"%({name})s::{kind}[]" for name, kind in zip(columns, types, strict=True)]
    are_stored = failing_unless(f"count(*) = cardinality({arrays[0]})", table.name)
    statement = (
        f"WITH added AS (INSERT INTO {table.name} ({', '.join(columns)}) "  # noqa: S608 - our own names
        f"SELECT * FROM unnest({', '.join(arrays)}) RETURNING 1) SELECT {are_stored} FROM added"
    )
    values = {name: Array(kind, values) for (name, values), kind in zip(columns.items(), types, strict=True)}
    return statement, values


def request(bind: Engine | Connection, statement: Executed, values: Mapping[str, object]) -> Request:
    """Return the text and the values of *statement* in the form of the driver."""
    # For an INSERT, the names of the values are its columns.
    names = () if isinstance(statement, Select | CompoundSelect) else tuple(values)
    text, constants = _compiled(statement, bind.dialect, names)
    return text, {**constants, **values}


@lru_cache(maxsize=64)
def _types(table: Table, columns: tuple[str, ...], dialect: Dialect) -> Sequence[str]:
    return [str(table.c[name].type.compile(dialect)).lower() for name in columns]


@lru_cache(maxsize=256)
def _compiled(statement: Executed, dialect: Dialect, columns: tuple[str, ...]) -> tuple[str, Mapping[str, object]]:
    compiled = statement.compile(dialect=dialect, column_keys=columns or None)
    return str(compiled), compiled.params


def fetch(
    connection: Connection, statement: str, values: Mapping[str, object] | Sequence[object]
) -> Sequence[tuple[Any, ...]]:
    """Return the rows of *statement* directly from the driver, in the binary format; needs an open transaction."""
    if connection.dialect.is_async:
        return [tuple(row) for row in connection.exec_driver_sql(statement, _as_set(values))]
    with usual_errors(connection), executed(connection, statement, values) as cursor:
        rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
        return rows


def run(connection: Connection, statement: str, values: Mapping[str, object] | Sequence[object]) -> int:
    """Run *statement* directly on the driver; return the number of changed rows. Needs an open transaction."""
    if connection.dialect.is_async:
        return connection.exec_driver_sql(statement, _as_set(values)).rowcount
    with usual_errors(connection), executed(connection, statement, values) as cursor:
        return int(cursor.rowcount)


def _as_set(values: Mapping[str, object] | Sequence[object]) -> dict[str, object] | tuple[object, ...]:
    return dict(values) if isinstance(values, Mapping) else tuple(values)


DIALECT = PostgresqlDialect()
