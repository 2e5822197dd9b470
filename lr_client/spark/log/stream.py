"""The streaming reader of `format("lrq_log")`; a read-only view of the log."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from sqlalchemy import Connection, Engine

import queues
from lr_client.spark.log.ranges import LogOptions, ranges, read_range
from lr_client.spark.pause import Pause
from queues.database.transactions import reading
from queues.errors import NeedsFullSyncError, TrimmedError
from queues.send_log.history import branch_at, end_within
from queues.send_log.reads import newest_tick, trimmed_seq

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

#: An offset in Spark's checkpoint: the branch and sequence of the end of a tick.
Kept: TypeAlias = dict[str, Any]


class LogStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches of whole ticks in a process beside the driver, and reads the batches in tasks."""

    def __init__(self, options: LogOptions) -> None:
        """Open no connection yet: Spark creates several readers, and only one of them plans."""
        self._options = options
        self._planning: Engine | None = None
        self._pause = Pause()
        self._until: int | None = None

    def initialOffset(self) -> Kept:  # noqa: N802
        """Return the offset before the oldest kept entry."""
        with reading(self._engine, snapshot=True) as connection:
            seq = trimmed_seq(connection)
            return {"branch": branch_at(connection, seq), "seq": seq}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit that `maxEntriesPerBatch` sets."""
        return ReadMaxRows(self._options.max_entries)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """End the stream at the newest tick of now."""
        with reading(self._engine) as connection:
            newest = newest_tick(connection)
        self._until = newest.end_seq if newest else 0

    def latestOffset(self, start: Kept, limit: ReadLimit) -> Kept:  # noqa: N802
        """Return the end of the last tick within *limit*, or of one larger tick; *start* when there is no new tick.

        Raises `TrimmedError` or `NeedsFullSyncError` when the log does not continue from *start*.
        """
        with reading(self._engine, snapshot=True) as connection:
            _require(connection, start)
            seq = _end(connection, start["seq"], limit, self._until)
            branch = start["branch"] if seq == start["seq"] else branch_at(connection, seq)
        if seq != start["seq"]:
            self._pause.reset()
        elif self._until is None:
            self._pause.wait()
        return {"branch": branch, "seq": seq}

    def partitions(self, start: Kept, end: Kept) -> list[InputPartition]:
        """Divide the batch from *start* to *end* into ranges of ticks, one for each task."""
        with reading(self._engine, snapshot=True) as connection:
            _require(connection, start)
            _require(connection, end)
            return ranges(connection, start["seq"], end["seq"], self._options.partitions)

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        """Read one range, as `read_range`."""
        return read_range(self._options.url, partition.value)

    def stop(self) -> None:
        """Close the connections."""
        if self._planning is not None:
            self._planning.dispose()
            self._planning = None

    @property
    def _engine(self) -> Engine:
        if self._planning is None:
            self._planning = queues.create_engine(self._options.url)
        return self._planning


def _end(connection: Connection, seq: int, limit: ReadLimit, until: int | None) -> int:
    entries = limit.max_rows if isinstance(limit, ReadMaxRows) else None
    found = end_within(connection, seq, entries, until)
    return seq if found is None else found


def _require(connection: Connection, at: Kept) -> None:
    """Raise an error unless the log continues from the offset *at*.

    Raises `TrimmedError` when the next entries are trimmed, `NeedsFullSyncError` when the database was restored.
    """
    oldest, newest = trimmed_seq(connection), newest_tick(connection)
    if at["seq"] < oldest:
        raise TrimmedError(requested=at["seq"], oldest=oldest)
    reaches = newest.end_seq if newest else 0
    if at["seq"] > reaches or (at["seq"] and at["branch"] != branch_at(connection, at["seq"])):
        raise NeedsFullSyncError(
            f"the log does not have {at['branch']}@{at['seq']} any more (it is at {reaches}): "
            "the database was restored from an earlier time. Begin with a new checkpoint"
        )
