"""Spark data source `lrq_log`: the log-entry queue of a site, for those who analyse it. It never moves anything.

    from lr_client.spark import register

    register(spark)
    spark.read.format("lrq_log").options(url=...).load().groupBy("client").count()
    spark.readStream.format("lrq_log").options(url=...).load()

Entries are there as soon as a tick holds them, until they are trimmed. A stream whose next entries were trimmed ends
with `TrimmedError`, as does a job under which they were; begin with a new checkpoint then.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final, cast

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import ArrayType, BinaryType, LongType, StringType, StructField, StructType, TimestampType
from sqlalchemy import Connection, NullPool, func, select

import queues
from lr_client.spark.arrow import record_batch
from lr_client.spark.log_rows import LogEntry, log_pages
from lr_client.spark.options import database_url, number
from queues import migrate
from queues.errors import MissingDependencyError
from queues.log.sql import newest_tick, trimmed_seq
from queues.tables import ticks
from queues.transactions import reading

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

    from lr_client.spark.log_stream import LogStream

#: `sequence` numbers the entries of all clients; what a destination counts within a tick is its own.
SCHEMA: Final = StructType(
    [
        StructField("payload", BinaryType()),
        StructField("item_key", StringType()),
        StructField("partition_key", StringType()),
        StructField("client", StringType()),
        StructField("destinations", ArrayType(StringType())),
        StructField("tick", LongType()),
        StructField("sequence", LongType()),
        StructField("transaction", LongType()),
        StructField("commit_time", TimestampType()),
        StructField("branch", StringType()),
    ]
)


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Options of `format("lrq_log")`."""

    url: str = field(repr=False)
    partitions: int
    max_entries: int


class LogFormat(DataSource):
    """`format("lrq_log")`; options `url`, `partitions` (4) and, of streams, `maxEntriesPerBatch` (10000)."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "lrq_log"

    def schema(self) -> StructType:
        """Return the columns."""
        return SCHEMA

    def reader(self, schema: StructType) -> "LogReader":  # noqa: ARG002 - Spark's signature
        """Return the reader of all that is kept now."""
        return LogReader(self._chosen)

    def streamReader(self, schema: StructType) -> "LogStream":  # noqa: ARG002, N802 - Spark's signature
        """Return the reader of a stream."""
        try:
            from lr_client.spark.log_stream import LogStream
        except ImportError as error:
            raise MissingDependencyError(
                f"readStream of lrq_log needs PySpark 4.2 ({error}): run `pip install -U 'lrq[spark]'`"
            ) from error
        return LogStream(self._chosen)

    @property
    def _chosen(self) -> LogOptions:
        options = cast("Mapping[str, str]", self.options)
        url = database_url(options, "lrq_log")
        return LogOptions(url, number(options, "partitions", 4), number(options, "maxEntriesPerBatch", 10_000))


class LogReader(DataSourceReader):
    """Reads once what is kept."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Cut what is kept into ranges of ticks."""
        engine = queues.create_engine(self._options.url, poolclass=NullPool)
        with reading(engine, snapshot=True) as connection:
            migrate.require(connection)
            newest = newest_tick(connection)
            upto = newest.end_seq if newest else 0
            return ranges(connection, trimmed_seq(connection), upto, self._options.partitions)

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        """Read one range."""
        return read_range(self._options.url, partition.value)


def ranges(connection: Connection, after: int, upto: int, pieces: int) -> list[InputPartition]:
    """Cut the ticks between two ends of ticks into ranges of about as many entries each."""
    step = max(1, -(-(upto - after) // pieces))
    ends = {after, upto}
    for border in range(after + step, upto, step):
        ends.add(connection.execute(select(func.min(ticks.c.end_seq)).where(ticks.c.end_seq >= border)).scalar_one())
    ordered = sorted(ends)
    return [InputPartition(pair) for pair in pairwise(ordered)]


def read_range(url: str, bounds: tuple[int, int] | None) -> "Iterator[pyarrow.RecordBatch]":
    """Read a range in Arrow batches; what Spark makes of no ranges at all is None."""
    if bounds is None:
        return
    engine = queues.create_engine(url)
    try:
        for page in log_pages(engine, *bounds):
            columns = dict(zip(LogEntry._fields, map(list, zip(*page, strict=True)), strict=True))
            yield record_batch(SCHEMA, len(page), columns)
    finally:
        engine.dispose()
