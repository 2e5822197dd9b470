"""The stream of `format("lrq_receive")`, in the terms of Spark."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from lr_client.spark.intake import Intake, Offsets
from lr_client.spark.offsets import Offset
from lr_client.spark.options import ReceiveOptions
from lr_client.spark.pause import Pause
from lr_client.spark.receive_format import read_portion
from queues.receive.consuming import Received
from queues.receive.upcoming import Limits

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

#: An offset as Spark keeps it: by source, the fields of `Offset`.
Kept = dict[str, dict[str, Any]]


class ReceiveStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in a process beside the driver, reads them in tasks.

    `latestOffset(start)` is where entries up to *start* are deleted: Spark calls it when the batch that ends there is
    in its commit log. `commit(start)` comes later, with the next batch only, and may never come.
    """

    def __init__(self, options: ReceiveOptions) -> None:
        """Open nothing: Spark makes several of these, of which one plans."""
        self._options = options
        self._planning: Intake | None = None
        self._pause = Pause()
        self._until: dict[str, Received] | None = None

    def initialOffset(self) -> Kept:  # noqa: N802
        """Return where a stream without a checkpoint begins."""
        return _kept(self._intake.start())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit that `maxEntriesPerBatch` sets."""
        return ReadMaxRows(self._options.max_entries)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Do not go beyond what has been received by now."""
        self._until = self._intake.received()

    def latestOffset(self, start: Kept, limit: ReadLimit) -> Kept:  # noqa: N802
        """Return the end of the next batch; *start* itself when there is nothing new."""
        limits = None
        if isinstance(limit, ReadMaxRows):
            limits = Limits(limit.max_rows, self._options.max_bytes)
        begin = _offsets(start)
        following = self._intake.after(begin, limits, until=self._until)
        if following != begin:
            self._pause.reset()
        elif self._until is None:
            self._pause.wait()
        return _kept(following)

    def partitions(self, start: Kept, end: Kept) -> list[InputPartition]:
        """Cut a batch into portions."""
        return [InputPartition(portion) for portion in self._intake.plan(_offsets(start), _offsets(end))]

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        """Read one portion."""
        return read_portion(self._options.url, partition.value)

    def commit(self, end: Kept) -> None:
        """Take off what came up to *end*, if that was not done."""
        self._intake.take_off(_offsets(end))

    def stop(self) -> None:
        """Let another subscriber begin."""
        if self._planning is not None:
            self._planning.close()
            self._planning = None

    @property
    def _intake(self) -> Intake:
        if self._planning is None:
            self._planning = Intake(self._options)
        return self._planning


def _offsets(kept: Kept) -> Offsets:
    return {source: Offset.parse(fields) for source, fields in kept.items()}


def _kept(offsets: Offsets) -> Kept:
    return {source: offset._asdict() for source, offset in offsets.items()}
