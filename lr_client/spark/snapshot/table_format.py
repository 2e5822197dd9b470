"""Spark data source `lrq_table`: reads a database table at a pinned cut in parallel, without a JDBC jar.

spark.dataSource.register(TableFormat)
spark.read.format("lrq_table").options(url=..., cut=..., table="airports", partitions=4).load()
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType
from sqlalchemy import Connection, MetaData, Table, exc, select

from lr_client.snapshot.cut import connect_at
from lr_client.spark.options import number, refuse_misspelt, required
from lr_client.spark.snapshot.columns import Field, field_of, refuse_fraction, selected, struct_of
from lr_client.spark.snapshot.mapping import mapped
from lr_client.spark.snapshot.part_task import engine_at
from queues.database import dialects
from queues.errors import SnapshotFailedError

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame, SparkSession

#: Rows in the first Arrow batch, whose size is not known; then the limits of each later batch.
_FETCH = 8
_GROWTH = 4
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


class RangeTask:
    """Reads the ranges of a table whose numbers Spark's tasks get."""

    def __init__(self, reader: "TableReader", ranges: Sequence[InputPartition]) -> None:
        self._reader = reader
        self._ranges = ranges

    def __call__(self, batches: "Iterator[pyarrow.RecordBatch]") -> "Iterator[pyarrow.RecordBatch]":
        """Yield the rows of each range."""
        for batch in batches:
            for place in batch.column(0).to_pylist():
                yield from self._reader.read(self._ranges[place])


def ranges_of(spark: "SparkSession", reader: "TableReader") -> "DataFrame":
    """Return the table of *reader*, with one partition for each range.

    The driver has read the columns and the ranges already. The format `lrq_table` starts two more Python processes for
    that, which takes longer than the rows of a small table.
    """
    ranges = reader.partitions()
    numbers = spark.range(0, len(ranges), 1, len(ranges))
    return mapped(numbers, RangeTask(reader, ranges), struct_of(reader.fields))


class TableReader(DataSourceReader):
    """Plans ranges of rows in the driver and reads the ranges in tasks, all at the same cut."""

    def __init__(self, options: Mapping[str, str]) -> None:
        refuse_misspelt(options, ("url", "cut", "table", "partitions", "columns"))
        self._url, self._cut, name = (required(options, each, "lrq_table") for each in ("url", "cut", "table"))
        self._partitions = number(options, "partitions", 1)
        with self._connect() as connection:
            self._table = _reflected(connection, name)
            dialect = dialects.of(connection)
            self._extent = dialect.extent(connection, self._table)
            #: About the number of rows, from the statistics of the database.
            self.estimated_rows = dialect.estimate_rows(connection, self._table)
        chosen = json.loads(options.get("columns", "null")) or [column.name for column in self._table.columns]
        self.fields = [field_of(self._table, name) for name in chosen]

    def partitions(self) -> list[InputPartition]:
        """Divide the table into at most as many ranges as the option `partitions` says."""
        if self._extent is None:
            return [Range(None, None)]
        low, high = self._extent
        count = max(1, min(self._partitions, high - low))
        inner = [low + (high - low) * number // count for number in range(1, count)]
        return [Range(*ends) for ends in zip([None, *inner], [*inner, None], strict=True)]

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        """Read the rows of one range in Arrow batches."""
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(struct_of(self.fields), timezone="UTC")
        wanted = select(*(selected(self._table.c[field.name]) for field in self.fields))
        with self._connect() as connection:
            part = cast("Range", partition)
            wanted = wanted.where(*dialects.of(connection).between(part.low, part.high))
            with connection.execution_options(stream_results=True).execute(wanted) as rows:
                fetch = _FETCH
                while found := rows.fetchmany(fetch):
                    batch = _arrow(list(zip(*found, strict=True)), self.fields, schema)
                    yield batch
                    fetch = next_rows(len(found), batch.nbytes)

    @contextmanager
    def _connect(self) -> Iterator[Connection]:
        with engine_at(self._url) as engine, connect_at(engine, self._cut) as connection:
            yield connection


def next_rows(rows: int, size: int) -> int:
    """Return the number of rows to fetch after a batch of *rows* with *size* bytes. Pure."""
    return max(1, min(_BATCH_ROWS, _GROWTH * rows, _BATCH_BYTES * rows // max(1, size)))


def _reflected(connection: Connection, name: str) -> Table:
    schema, _, plain = name.rpartition(".")
    try:
        return Table(plain, MetaData(), schema=schema or None, autoload_with=connection)
    except exc.NoSuchTableError:
        raise SnapshotFailedError(f"there is no table {name} in the database of this snapshot") from None


def _arrow(values: list[tuple[Any, ...]], fields: list[Field], schema: "pyarrow.Schema") -> "pyarrow.RecordBatch":
    import pyarrow

    columns = []
    for place, (field, column) in enumerate(zip(fields, values, strict=True)):
        if float in set(map(type, column)):
            refuse_fraction(field)
        if field.convert is not None:
            column = tuple(None if value is None else field.convert(value) for value in column)
        columns.append(pyarrow.array(column, schema.field(place).type))
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)
