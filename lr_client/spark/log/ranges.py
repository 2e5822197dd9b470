"""Ranges of ticks of the send log, and the entries of a range as Arrow batches."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import ArrayType, BinaryType, LongType, StringType, StructField, StructType, TimestampType
from sqlalchemy import Connection

import queues
from lr_client.spark.arrow import record_batch
from lr_client.spark.log.rows import LogEntry, log_pages
from queues.send_log.history import end_at_or_after

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

#: `sequence` numbers the entries of all clients and destinations; sequences at a destination are counted separately.
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


def ranges(connection: Connection, after: int, upto: int, pieces: int) -> list[InputPartition]:
    """Divide the ticks from *after* to *upto* into at most *pieces* ranges of about equal size; both are tick ends."""
    step = max(1, -(-(upto - after) // pieces))
    ends = {after, upto}
    for border in range(after + step, upto, step):
        ends.add(end_at_or_after(connection, border))
    ordered = sorted(ends)
    return [InputPartition(pair) for pair in pairwise(ordered)]


def read_range(url: str, bounds: tuple[int, int] | None) -> "Iterator[pyarrow.RecordBatch]":
    """Read the range *bounds* in Arrow batches of `SCHEMA`; Spark passes None when there are no ranges."""
    if bounds is None:
        return
    engine = queues.create_engine(url)
    try:
        for page in log_pages(engine, *bounds):
            columns = dict(zip(LogEntry._fields, map(list, zip(*page, strict=True)), strict=True))
            yield record_batch(SCHEMA, len(page), columns)
    finally:
        engine.dispose()
