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
from sqlalchemy import Connection, CursorResult, MetaData, Table, column, exc, select, table

from lr_client.snapshot.cut import connect_at
from lr_client.spark.options import number, refuse_misspelt, required
from lr_client.spark.snapshot.columns import Field, field_of, misfit, refuse_fraction, selected, struct_of
from lr_client.spark.snapshot.mapping import mapped
from lr_client.spark.snapshot.part_task import engine_at
from lr_client.spark.snapshot.shares import Piece, shares_of
from queues.database import dialects
from queues.errors import SnapshotFailedError
from queues.words import describe

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame, SparkSession

#: Rows in the first Arrow batch, whose size is not known; then the limits of each later batch.
_FETCH = 8
_GROWTH = 4
_BATCH_ROWS = 2_000
_BATCH_BYTES = 4 * 1024 * 1024


class TableShare(InputPartition):
    """The rows of a table that one task reads."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces


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


class ShareTask:
    """Reads the shares of a table whose numbers Spark's tasks get."""

    def __init__(self, reader: "TableReader", shares: Sequence[InputPartition]) -> None:
        self._reader = reader
        self._shares = shares

    def __call__(self, batches: "Iterator[pyarrow.RecordBatch]") -> "Iterator[pyarrow.RecordBatch]":
        """Yield the rows of each share."""
        for batch in batches:
            for place in batch.column(0).to_pylist():
                yield from self._reader.read(self._shares[place])


def frame_of(spark: "SparkSession", reader: "TableReader") -> "DataFrame":
    """Return the table of *reader*, with one partition for each share.

    The driver has read the columns and the shares already. The format `lrq_table` starts two more Python processes for
    that, which takes longer than the rows of a small table.
    """
    shares = reader.partitions()
    numbers = spark.range(0, len(shares), 1, len(shares))
    return mapped(numbers, ShareTask(reader, shares), struct_of(reader.fields))


class TableReader(DataSourceReader):
    """Plans shares of rows in the driver and reads the shares in tasks, all at the same cut."""

    def __init__(self, options: Mapping[str, str]) -> None:
        refuse_misspelt(options, ("url", "cut", "table", "partitions", "columns"))
        self._url, self._cut, name = (required(options, each, "lrq_table") for each in ("url", "cut", "table"))
        self._partitions = number(options, "partitions", 1)
        with self._connect() as connection:
            self._table = _reflected(connection, name)
            dialect = dialects.of(connection)
            self._stored = dialect.stored_tables(connection, self._table)
            #: About the number of rows, from the statistics of the database.
            self.estimated_rows = dialect.estimate_rows(connection, self._table)
        chosen = json.loads(options.get("columns", "null")) or [each.name for each in self._table.columns]
        self.fields = [field_of(self._table, name) for name in chosen]

    def partitions(self) -> list[InputPartition]:
        """Divide the table into at most as many shares as the option `partitions` says."""
        return [TableShare(pieces) for pieces in shares_of(self._stored, self._partitions)]

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        """Read the rows of one share in Arrow batches."""
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(struct_of(self.fields), timezone="UTC")
        with self._connect() as connection:
            fetch = _FETCH
            for piece in cast("TableShare", partition).pieces:
                with self._rows_of(connection, piece) as rows:
                    while found := rows.fetchmany(fetch):
                        batch = _arrow(list(zip(*found, strict=True)), self.fields, schema)
                        yield batch
                        fetch = next_rows(len(found), batch.nbytes)

    def _rows_of(self, connection: Connection, piece: Piece) -> CursorResult[Any]:
        # Unlike a `Table`, a clause lets the engine keep the compiled statement for the next task.
        columns = [column(field.name, self._table.c[field.name].type) for field in self.fields]
        stored = table(piece.table.name, *columns, schema=piece.table.schema)
        wanted = select(*map(selected, columns)).where(*dialects.of(connection).between(piece.low, piece.high))
        if piece.table.only:
            wanted = wanted.with_hint(stored, "ONLY")
        try:
            return connection.execution_options(stream_results=True).execute(wanted)
        except exc.ProgrammingError as error:
            raise SnapshotFailedError(
                f"the table {stored.fullname} cannot be read as at the cut ({describe(error)}): if a change of the "
                "table has caused that, the next attempt reads it at a later cut"
            ) from error

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
    for place, (field, given) in enumerate(zip(fields, values, strict=True)):
        if float in set(map(type, given)):
            refuse_fraction(field)
        try:
            if field.convert is not None:
                given = tuple(None if value is None else field.convert(value) for value in given)
            columns.append(pyarrow.array(given, schema.field(place).type))
        except (ArithmeticError, TypeError, ValueError) as error:
            raise misfit(field.name, f"{field.type.simpleString()}, and a row has another value there") from error
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)
