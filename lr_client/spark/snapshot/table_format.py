"""Spark data source `lrq_table`: reads a database table at a pinned cut in parallel, without a JDBC jar.

spark.dataSource.register(TableFormat)
spark.read.format("lrq_table").options(url=..., cut=..., table="airports", partitions=4).load()
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType
from sqlalchemy import Connection, CursorResult, MetaData, NullPool, Table, exc, select

import queues
from lr_client.snapshot.cut import connect_at
from lr_client.spark.snapshot.columns import Field, field_of, struct_of
from queues.database import dialects
from queues.errors import SnapshotFailedError

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

#: Rows in the first Arrow batch, then the limits of each later batch.
_FETCH = 200
_BATCH_ROWS = 2_000
_BATCH_BYTES = 4 * 1024 * 1024


class Range(InputPartition):
    """The rows from place `low` (inclusive) to place `high` (exclusive) of a table; None is an open end."""

    def __init__(self, low: int | None, high: int | None) -> None:
        self.low = low
        self.high = high


class TableFormat(DataSource):
    """`format("lrq_table")`; options `url`, `cut`, `table`; optionally `partitions` (1) and `columns` (JSON list)."""

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
    """Plans ranges of rows in the driver and reads the ranges in tasks, all at the same cut."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._url = options["url"]
        self._cut = options["cut"]
        self._partitions = int(options.get("partitions", "1"))
        with self._connect() as connection:
            self._table = _reflected(connection, options["table"])
        chosen = json.loads(options.get("columns", "null")) or [column.name for column in self._table.columns]
        self.fields = [field_of(self._table, name) for name in chosen]

    def partitions(self) -> list[InputPartition]:
        """Divide the table into at most as many ranges as the option `partitions` says."""
        with self._connect() as connection:
            bounds = dialects.of(connection).extent(connection, self._table)
        if bounds is None:
            return [Range(None, None)]
        low, high = bounds
        count = max(1, min(self._partitions, high - low))
        inner = [low + (high - low) * number // count for number in range(1, count)]
        return [Range(*ends) for ends in zip([None, *inner], [*inner, None], strict=True)]

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        """Read the rows of one range in Arrow batches."""
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(struct_of(self.fields), timezone="UTC")
        wanted = select(*(self._table.c[field.name] for field in self.fields))
        with self._connect() as connection:
            part = cast("Range", partition)
            wanted = wanted.where(*dialects.of(connection).between(part.low, part.high))
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


def _batches(rows: CursorResult[Any]) -> Iterator[list[tuple[Any, ...]]]:
    """Yield batches as lists of columns; each batch's size in bytes sets the number of rows of the next one."""
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
