"""The streaming reader of `format("lrq_receive")`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from lr_client.spark.options import ReceiveOptions
from lr_client.spark.pause import Pause
from lr_client.spark.receive.intake import Offsets, StreamSubscription
from lr_client.spark.receive.offsets import Offset
from lr_client.spark.receive.portion_rows import read_portion
from queues.receive.batches import BatchLimits
from queues.receive.consumer_marks import Received

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

#: An offset in Spark's checkpoint: the fields of `Offset` for each source.
Kept = dict[str, dict[str, Any]]


class ReceiveStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in a process beside the driver, and reads the batches in tasks.

    `latestOffset(start)` deletes the entries up to *start*: Spark calls it after committing the batch that ends there.
    `commit(start)` is too late, because Spark calls it only with the next batch, and perhaps never.
    """

    def __init__(self, options: ReceiveOptions) -> None:
        """Open no connection yet: Spark creates several readers, and only one of them plans."""
        self._options = options
        self._planning: StreamSubscription | None = None
        self._pause = Pause()
        self._until: dict[str, Received] | None = None

    def initialOffset(self) -> Kept:  # noqa: N802
        """Return the offset at which a stream without a checkpoint begins."""
        return _kept(self._intake.start())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit that `maxEntriesPerBatch` sets."""
        return ReadMaxRows(self._options.max_entries)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """End the stream at the entries received by now."""
        self._until = self._intake.received()

    def latestOffset(self, start: Kept, limit: ReadLimit) -> Kept:  # noqa: N802
        """Delete the entries up to *start*; return the end of the next batch, or *start* when there is nothing new."""
        limits = None
        if isinstance(limit, ReadMaxRows):
            limits = BatchLimits(limit.max_rows, self._options.max_bytes)
        begin = _offsets(start)
        following = self._intake.after(begin, limits, until=self._until)
        if following != begin:
            self._pause.reset()
        elif self._until is None:
            self._pause.wait()
        return _kept(following)

    def partitions(self, start: Kept, end: Kept) -> list[InputPartition]:
        """Divide the batch from *start* to *end* into portions, one for each task."""
        return [InputPartition(portion) for portion in self._intake.plan(_offsets(start), _offsets(end))]

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        """Read one portion, as `read_portion`."""
        return read_portion(self._options.url, partition.value, keyed=self._options.partition_keys)

    def commit(self, end: Kept) -> None:
        """Delete the entries up to *end* that are not deleted yet."""
        self._intake.consume(_offsets(end))

    def stop(self) -> None:
        """Release the lease, so that another subscriber can begin."""
        if self._planning is not None:
            self._planning.close()
            self._planning = None

    @property
    def _intake(self) -> StreamSubscription:
        if self._planning is None:
            self._planning = StreamSubscription(self._options)
        return self._planning


def _offsets(kept: Kept) -> Offsets:
    return {source: Offset.parse(fields) for source, fields in kept.items()}


def _kept(offsets: Offsets) -> Kept:
    return {source: offset._asdict() for source, offset in offsets.items()}
