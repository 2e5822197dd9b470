"""PostgreSQL 14 and later, through psycopg 3."""

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, Table, text

_NOW = text("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")


class PostgresqlDialect:
    """See `queues.dialects.Dialect`."""

    def bulk_insert(
        self, connection: Connection, table: Table, columns: Sequence[str], rows: Iterable[Sequence[object]]
    ) -> None:
        """Insert *rows* with binary COPY."""
        cursor = connection.connection.cursor()
        types = [str(table.c[name].type.compile(connection.dialect)).lower() for name in columns]
        with cursor.copy(f"COPY {table.name} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)

    def now_us(self, connection: Connection) -> int:
        """Return the server's clock."""
        return int(connection.execute(_NOW).scalar_one())


DIALECT = PostgresqlDialect()
