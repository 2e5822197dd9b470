"""Spark data source `lrq_receive`: reads receive queues once, or follows them as a stream.

    from lr_client.spark import register

    register(spark)
    spark.read.format("lrq_receive").options(url=..., client="policy", source="paris").load()
    spark.readStream.format("lrq_receive").options(url=..., client="policy").load()

Both return the entries for a new subscriber: the newest complete snapshot, then the log after it. Reading once deletes
nothing. A stream is a subscriber (see `lr_client.spark.receive.intake`), and ordinary subscribers stand by. Entries in
Spark's checkpoint are deleted, unless `deleteOnCommit` is false. A newer complete snapshot replaces all earlier
entries, and the stream continues with it. A batch never mixes two histories of one source.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType
from sqlalchemy import NullPool

import queues
from lr_client.spark.options import ReceiveOptions, flag
from lr_client.spark.receive.intake import Portion, wanted_queues
from lr_client.spark.receive.offsets import remaining
from lr_client.spark.receive.portion_rows import read_portion, schema_of
from lr_client.spark.receive.queue import by_branch, look
from lr_client.spark.receive.rows import cut, measure
from queues.database import migrations
from queues.database.transactions import reading
from queues.errors import MissingDependencyError, UsageError

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

    from lr_client.spark.receive.stream import ReceiveStream


class ReceiveFormat(DataSource):
    """`format("lrq_receive")`.

    Required options: `url` (of the site's database) and `client`. Optional: `source` (all sources, also later ones) and
    `partitions` (4 for each source and batch).

    Options of streams: `maxEntriesPerBatch` (10000) and `maxBytesPerBatch` (64 MiB), which a single source transaction
    may exceed; `deleteOnCommit` (true); `leaseSeconds` (10). The option `snapshotMarkers` (false) adds rows of the
    kinds `snapshot_start` and `snapshot_complete`.

    The option `partitionKeys` (false) adds the last column `partition_key`, for `repartition("partition_key")`. A
    running stream must keep its value, because another column ends the stream.
    """

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "lrq_receive"

    def schema(self) -> StructType:
        """Return the columns of `SCHEMA`, or those of `KEYED_SCHEMA`."""
        return schema_of(flag(cast("Mapping[str, str]", self.options), "partitionKeys", default=False))

    def reader(self, schema: StructType) -> "ReceiveReader":  # noqa: ARG002 - Spark's signature
        """Return the reader of the entries in the queues now."""
        return ReceiveReader(ReceiveOptions.parse(cast("Mapping[str, str]", self.options)))

    def streamReader(self, schema: StructType) -> "ReceiveStream":  # noqa: ARG002, N802 - Spark's signature
        """Return the reader of a stream; raise `MissingDependencyError` for a PySpark below 4.2."""
        try:
            from lr_client.spark.receive.stream import ReceiveStream
        except ImportError as error:
            raise MissingDependencyError(
                f"readStream of lrq_receive needs PySpark 4.2 ({error}): run `pip install -U 'lrq[spark]'`"
            ) from error
        return ReceiveStream(ReceiveOptions.parse(cast("Mapping[str, str]", self.options)))


class ReceiveReader(DataSourceReader):
    """Reads the entries for a new subscriber once, and deletes nothing."""

    def __init__(self, options: ReceiveOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Divide the entries in the queues now into portions; raise `UsageError` when there is no such queue."""
        options = self._options
        engine = queues.create_engine(options.url, poolclass=NullPool)
        portions: list[Portion] = []
        with reading(engine, snapshot=True) as connection:
            migrations.require(connection)
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
        """Read one portion, as `read_portion`."""
        return read_portion(self._options.url, partition.value, keyed=self._options.partition_keys)
