"""PostgreSQL 14 and later, through psycopg 3."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from typing import Any, cast

from sqlalchemy import CompoundSelect, Connection, Dialect, Insert, Select, Table, Update, exc, text

from queues.dialects.binary_copy import binary_copy

_NOW = text("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")


class PostgresqlDialect:
    """See `queues.dialects.Dialect`."""

    def bulk_insert(
        self, connection: Connection, table: Table, columns: Sequence[str], rows: Iterable[Sequence[object]]
    ) -> None:
        """Insert *rows* with binary COPY."""
        values = list(zip(*rows, strict=True))
        if values:
            self.bulk_insert_columns(connection, table, dict(zip(columns, values, strict=True)))

    def bulk_insert_columns(
        self, connection: Connection, table: Table, columns: Mapping[str, Sequence[object]]
    ) -> None:
        """Insert rows with binary COPY."""
        statement = f"COPY {table.name} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
        types = [str(table.c[name].type.compile(connection.dialect)).lower() for name in columns]
        with usual_errors(connection), connection.connection.cursor().copy(statement) as copy:
            copy.write(binary_copy(types, list(columns.values())))

    def bulk_select(
        self,
        connection: Connection,
        wanted: Select[Any] | CompoundSelect[Any],
        values: Mapping[str, object] | None = None,
    ) -> Sequence[tuple[Any, ...]]:
        """Return the rows in the binary format, in which bytes come as they are."""
        if values is None:
            compiled = wanted.compile(dialect=connection.dialect)
            return fetch(connection, str(compiled), compiled.params)
        statement, constants = _compiled(wanted, connection.dialect, ())
        return fetch(connection, statement, {**constants, **values})

    def run(self, connection: Connection, change: Insert | Update, values: Mapping[str, object]) -> int:
        """Carry out *change* without SQLAlchemy's own work for each statement, which is most of what one costs here."""
        statement, constants = _compiled(change, connection.dialect, tuple(values))
        return run(connection, statement, {**constants, **values})

    def now_us(self, connection: Connection) -> int:
        """Return the server's clock."""
        return int(connection.execute(_NOW).scalar_one())


@lru_cache(maxsize=64)
def _compiled(
    statement: Select[Any] | CompoundSelect[Any] | Insert | Update, dialect: Dialect, columns: tuple[str, ...]
) -> tuple[str, Mapping[str, object]]:
    compiled = statement.compile(dialect=dialect, column_keys=columns or None)
    return str(compiled), compiled.params


def fetch(
    connection: Connection, statement: str, values: Mapping[str, object] | Sequence[object]
) -> Sequence[tuple[Any, ...]]:
    """Return the rows of *statement* straight from the driver, in the binary format; a transaction must be open."""
    with usual_errors(connection), closing(connection.connection.cursor(binary=True)) as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall()


def last_of(connection: Connection, statements: str) -> tuple[Any, ...]:
    """Carry out several statements in one message to the server; return the one row of the last of them."""
    with usual_errors(connection), closing(cast("Any", connection.connection.cursor())) as cursor:
        cursor.execute(statements, prepare=False)  # several cannot be prepared
        while cursor.nextset():
            pass
        (row,) = cursor.fetchall()
        return tuple(row)


def run(connection: Connection, statement: str, values: Mapping[str, object] | Sequence[object]) -> int:
    """Return how many rows *statement* changed, straight from the driver; a transaction must be open."""
    with usual_errors(connection), closing(connection.connection.cursor()) as cursor:
        cursor.execute(statement, values)
        return int(cursor.rowcount)


@contextmanager
def usual_errors(connection: Connection) -> Iterator[None]:
    """Let errors of what goes past SQLAlchemy look like those of all other statements."""
    driver = connection.dialect.loaded_dbapi.Error
    try:
        yield
    except driver as error:
        raise exc.DBAPIError.instance(None, None, error, driver, dialect=connection.dialect) from error


DIALECT = PostgresqlDialect()
