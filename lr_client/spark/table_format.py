"""Spark data source `lrq_table`: a database table at a pinned cut, read in parallel without a JDBC jar.

spark.dataSource.register(TableFormat)
spark.read.format("lrq_table").options(url=..., cut=..., table="airports", partitions=4).load()
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType
from sqlalchemy import Connection, CursorResult, MetaData, NullPool, Table, exc, func, literal_column, select, text

import queues
from lr_client.cut import connect_at
from lr_client.spark.columns import Field, field_of, struct_of
from queues.errors import SnapshotFailedError

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

#: Rows that are fetched first, and bounds of what is fetched then: it becomes one Arrow batch.
_FETCH = 200
_BATCH_ROWS = 2_000
_BATCH_BYTES = 4 * 1024 * 1024


class Range(InputPartition):
    """Rows whose place in the table is from `low` (inclusive) to `high` (exclusive); None is an open end."""

    def __init__(self, low: int | None, high: int | None) -> None:
        self.low = low
        self.high = high


class TableFormat(DataSource):
    """`format("lrq_table")`; options `url`, `cut` and `table`, and optionally `partitions` and `columns` (JSON)."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "lrq_table"

    def schema(self) -> StructType:
        """Return the columns of the table."""
        return struct_of(self.reader(None).fields)

    def reader(self, schema: StructType | None) -> "TableReader":  # noqa: ARG002 - Spark's signature
        """Return the reader of one table."""
        return TableReader(cast("Mapping[str, str]", self.options))


class TableReader(DataSourceReader):
    """Plans ranges of rows in the driver, reads them in tasks: all at the same cut."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._url = options["url"]
        self._cut = options["cut"]
        self._partitions = int(options.get("partitions", "1"))
        with self._connect() as connection:
            self._table = _reflected(connection, options["table"])
        chosen = json.loads(options.get("columns", "null")) or [column.name for column in self._table.columns]
        self.fields = [field_of(self._table, name) for name in chosen]

    def partitions(self) -> list[InputPartition]:
        """Cut the table into about as many ranges as were asked for."""
        with self._connect() as connection:
            bounds = _bounds(connection, self._table)
        if bounds is None:
            return [Range(None, None)]
        low, high = bounds
        count = max(1, min(self._partitions, high - low))
        inner = [low + (high - low) * number // count for number in range(1, count)]
        return [Range(*ends) for ends in zip([None, *inner], [*inner, None], strict=True)]

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        """Read the rows of one range."""
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(struct_of(self.fields), timezone="UTC")
        wanted = select(*(self._table.c[field.name] for field in self.fields))
        with self._connect() as connection:
            wanted = _within(wanted, connection.dialect.name, cast("Range", partition))
            with connection.execution_options(stream_results=True).execute(wanted) as rows:
                for columns in _batches(rows):
                    yield _arrow(columns, self.fields, schema)

    @contextmanager
    def _connect(self) -> Iterator[Connection]:
        engine = queues.create_engine(self._url, poolclass=NullPool)
        try:
            with connect_at(engine, self._cut) as connection:
                yield connection
        finally:
            engine.dispose()


def _reflected(connection: Connection, name: str) -> Table:
    schema, _, plain = name.rpartition(".")
    try:
        return Table(plain, MetaData(), schema=schema or None, autoload_with=connection)
    except exc.NoSuchTableError:
        raise SnapshotFailedError(f"there is no table {name} in the database of this snapshot") from None


def _bounds(connection: Connection, table: Table) -> tuple[int, int] | None:
    """Return the first place in the table and the one behind its last; None where it has to be read as a whole."""
    return _blocks(connection, table) if connection.dialect.name == "postgresql" else _row_ids(connection, table)


def _blocks(connection: Connection, table: Table) -> tuple[int, int] | None:
    name = connection.dialect.identifier_preparer.format_table(table)
    found = connection.execute(_RELATION, {"name": name}).one()
    return (0, found.blocks) if found.relkind in ("r", "m") else None


def _row_ids(connection: Connection, table: Table) -> tuple[int, int] | None:
    if "rowid" in table.c:
        return None
    row_id: Any = literal_column("rowid")
    try:
        low = connection.execute(select(func.min(row_id)).select_from(table)).scalar()
        high = connection.execute(select(func.max(row_id)).select_from(table)).scalar()
    except exc.OperationalError:  # WITHOUT ROWID
        return None
    return None if low is None or high is None else (low, high + 1)


_RELATION = text(
    "SELECT relkind, pg_relation_size(oid) / current_setting('block_size')::int AS blocks "
    "FROM pg_class WHERE oid = to_regclass(:name)"
)
_FROM = {"postgresql": "ctid >= CAST(:low AS tid)", "sqlite": "rowid >= :low"}
_TO = {"postgresql": "ctid < CAST(:high AS tid)", "sqlite": "rowid < :high"}


def _within(wanted: Any, dialect: str, part: Range) -> Any:  # noqa: ANN401 - a SELECT of whatever columns
    def place(number: int) -> int | str:
        return f"({number},0)" if dialect == "postgresql" else number

    if part.low is not None:
        wanted = wanted.where(text(_FROM[dialect]).bindparams(low=place(part.low)))
    if part.high is not None:
        wanted = wanted.where(text(_TO[dialect]).bindparams(high=place(part.high)))
    return wanted


def _batches(rows: CursorResult[Any]) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the columns of batches; rows are fetched as many at a time as are likely to be one."""
    fetch = _FETCH
    while batch := rows.fetchmany(fetch):
        columns = list(zip(*batch, strict=True))
        yield columns
        size = sum(sum(map(len, filter(_has_length, column))) for column in columns)
        fetch = max(1, min(_BATCH_ROWS, _BATCH_BYTES * len(batch) // max(1, size)))


def _has_length(value: object) -> bool:
    return isinstance(value, bytes | str)


def _arrow(values: list[tuple[Any, ...]], fields: list[Field], schema: "pyarrow.Schema") -> "pyarrow.RecordBatch":
    import pyarrow

    columns = []
    for number, (field, column) in enumerate(zip(fields, values, strict=True)):
        if field.convert is not None:
            column = tuple(None if value is None else field.convert(value) for value in column)
        columns.append(pyarrow.array(column, schema.field(number).type))
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)
