"""Spark data source `lrq_receive`: receive queues, read once or followed.

    from lr_client.spark import register

    register(spark)
    spark.read.format("lrq_receive").options(url=..., client="policy", source="paris").load()
    spark.readStream.format("lrq_receive").options(url=..., client="policy").load()

Both give what a subscriber that begins now would get: the newest complete snapshot, then the log after it. Reading once
takes nothing off the queue. A stream is a subscriber (see `lr_client.spark.intake`): ordinary ones stand by, and what
Spark's checkpoint has is deleted, unless `deleteOnCommit` is false. A snapshot that is completed meanwhile replaces
what came before; a stream follows it, and a batch never has entries of two histories of one source.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, cast

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType
from sqlalchemy import NullPool

import queues
from lr_client.spark.arrow import record_batch
from lr_client.spark.intake import Portion, wanted_queues
from lr_client.spark.offsets import SNAPSHOT_START, remaining
from lr_client.spark.options import ReceiveOptions
from lr_client.spark.receive_queue import by_branch, look
from lr_client.spark.receive_rows import cut, measure, pages
from queues import migrate
from queues.errors import MissingDependencyError, UsageError
from queues.receive.consuming import IN_SNAPSHOT
from queues.transactions import reading

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

    from lr_client.spark.receive_stream import ReceiveStream

#: Of a snapshot, `sequence` numbers its entries from 1, and `transaction`, `commit_time` and `branch` are NULL.
SCHEMA: Final = StructType(
    [
        StructField("payload", BinaryType()),
        StructField("item_key", StringType()),
        StructField("sequence", LongType()),
        StructField("transaction", LongType()),
        StructField("commit_time", TimestampType()),
        StructField("kind", StringType()),
        StructField("sync_id", StringType()),
        StructField("branch", StringType()),
        StructField("source", StringType()),
        StructField("client", StringType()),
    ]
)


class ReceiveFormat(DataSource):
    """`format("lrq_receive")`.

    Options: `url` (of the site's database) and `client`; `source` (without it, all sources, those to come included);
    `partitions` (4) a source and batch. Of streams: `maxEntriesPerBatch` (10000) and `maxBytesPerBatch` (64 MiB), which
    one source transaction alone may exceed; `deleteOnCommit` (true); `snapshotMarkers` (false), which adds rows of the
    kinds `snapshot_start` and `snapshot_complete`; `leaseSeconds` (10).
    """

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "lrq_receive"

    def schema(self) -> StructType:
        """Return the columns."""
        return SCHEMA

    def reader(self, schema: StructType) -> "ReceiveReader":  # noqa: ARG002 - Spark's signature
        """Return the reader of all that is there now."""
        return ReceiveReader(ReceiveOptions.parse(cast("Mapping[str, str]", self.options)))

    def streamReader(self, schema: StructType) -> "ReceiveStream":  # noqa: ARG002, N802 - Spark's signature
        """Return the reader of a stream."""
        try:
            from lr_client.spark.receive_stream import ReceiveStream
        except ImportError as error:
            raise MissingDependencyError(
                f"readStream of lrq_receive needs PySpark 4.2 ({error}): run `pip install -U 'lrq[spark]'`"
            ) from error
        return ReceiveStream(ReceiveOptions.parse(cast("Mapping[str, str]", self.options)))


class ReceiveReader(DataSourceReader):
    """Reads once what a subscriber would get, and leaves it there."""

    def __init__(self, options: ReceiveOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Cut what is there now into portions; raises `UsageError` when there is no such queue."""
        options = self._options
        engine = queues.create_engine(options.url, poolclass=NullPool)
        portions: list[Portion] = []
        with reading(engine, snapshot=True) as connection:
            migrate.require(connection)
            found = wanted_queues(connection, options)
            for queue in found:
                view = look(connection, queue.queue_id)
                for whole in remaining(view.consumed, view.received):
                    for span in by_branch(connection, queue.queue_id, whole):
                        _, entries = measure(connection, queue, span, None)
                        pieces = cut(connection, queue.queue_id, span, entries, options.partitions)
                        portions += [Portion(queue, piece, count) for piece, count in pieces]
        if not found:
            of = "any source" if options.source is None else options.source
            raise UsageError(f"nothing was received here for client {options.client} from {of} yet: check both names")
        return [InputPartition(portion) for portion in portions]

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        """Read one portion."""
        return read_portion(self._options.url, partition.value)


def read_portion(url: str, portion: Portion | None) -> "Iterator[pyarrow.RecordBatch]":
    """Read a portion in Arrow batches; what Spark makes of no portions at all is None."""
    if portion is None:
        return
    queue, span = portion.queue, portion.span
    common: dict[str, object] = {
        "kind": span.kind,
        "sync_id": span.sync_id or None,
        "branch": span.branch or None,
        "source": queue.source,
        "client": queue.client,
    }
    for marker in portion.markers:
        no_entry = dict.fromkeys(("payload", "item_key", "transaction", "commit_time", "branch"))
        place = {"kind": marker, "sequence": 0 if marker == SNAPSHOT_START else span.after}
        yield record_batch(SCHEMA, 1, {**common, **no_entry, **place})
    engine = queues.create_engine(url)
    try:
        for page in pages(engine, queue, span, portion.entries):
            seqs, transactions, times, keys, payloads = map(list, zip(*page, strict=True))
            columns: dict[str, object] = {"payload": payloads, "item_key": keys, "sequence": seqs}
            if span.kind == IN_SNAPSHOT:
                columns |= {"transaction": None, "commit_time": None}
            else:
                columns |= {"transaction": transactions, "commit_time": times}
            yield record_batch(SCHEMA, len(page), {**common, **columns})
    finally:
        engine.dispose()
