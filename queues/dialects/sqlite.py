"""SQLite in WAL mode, the embedded default."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import CompoundSelect, Connection, Insert, Select, Table, Update

from queues.clock import now_us
from queues.dialects.statements import Statement


class SqliteDialect:
    """See `queues.dialects.Dialect`."""

    def bulk_insert(
        self, connection: Connection, table: Table, columns: Sequence[str], rows: Iterable[Sequence[object]]
    ) -> None:
        """Insert *rows* with the driver's `executemany`."""
        marks = ", ".join("?" for _ in columns)
        statement = f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - our own names
        values = [tuple(row) for row in rows]
        if values:
            connection.exec_driver_sql(statement, values)

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
        """Insert rows with the driver's `executemany`."""
        answers = self.run_all(connection, first)
        self.bulk_insert(connection, table, list(columns), zip(*columns.values(), strict=True))
        self.run_all(connection, then, last=last)
        return answers

    def is_at_once(self, rows: int, size: int) -> bool:  # noqa: ARG002 - there are no messages
        """Nothing is: each statement is carried out where it is."""
        return False

    def bulk_select(
        self,
        connection: Connection,
        wanted: Select[Any] | CompoundSelect[Any],
        values: Mapping[str, object] | None = None,
    ) -> Sequence[tuple[Any, ...]]:
        """Return the rows as they come."""
        return [tuple(row) for row in connection.execute(wanted, values)]

    def run(self, connection: Connection, change: Insert | Update, values: Mapping[str, object]) -> int:
        """Carry out *change* like any other statement."""
        return connection.execute(change, values).rowcount

    def run_all(
        self,
        connection: Connection,
        statements: Sequence[Statement],
        *,
        last: bool = False,  # noqa: ARG002 - the caller's commit costs no more
    ) -> list[Sequence[tuple[Any, ...]]]:
        """Carry out one after the other."""
        results = (connection.execute(statement, values) for statement, values in statements)
        return [[tuple(row) for row in result] if result.returns_rows else [] for result in results]

    def now_us(self, connection: Connection) -> int:  # noqa: ARG002 - the machine's clock serves all who open a file
        """Return the machine's clock."""
        return now_us()


DIALECT = SqliteDialect()
