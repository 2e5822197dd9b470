"""PostgreSQL 14 and later, through psycopg 3."""

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, Table, exc, text

from queues.dialects.binary_copy import binary_copy

_NOW = text("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")


class PostgresqlDialect:
    """See `queues.dialects.Dialect`."""

    def bulk_insert(
        self, connection: Connection, table: Table, columns: Sequence[str], rows: Iterable[Sequence[object]]
    ) -> None:
        """Insert *rows* with binary COPY."""
        values = list(rows)
        if not values:
            return
        statement = f"COPY {table.name} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
        types = [str(table.c[name].type.compile(connection.dialect)).lower() for name in columns]
        driver = connection.dialect.loaded_dbapi.Error
        try:
            with connection.connection.cursor().copy(statement) as copy:
                copy.write(binary_copy(types, values))
        except driver as error:
            # COPY goes past SQLAlchemy; its errors must look like those of all other statements.
            raise exc.DBAPIError.instance(None, None, error, driver, dialect=connection.dialect) from error

    def now_us(self, connection: Connection) -> int:
        """Return the server's clock."""
        return int(connection.execute(_NOW).scalar_one())


DIALECT = PostgresqlDialect()
