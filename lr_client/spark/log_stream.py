"""The stream of `format("lrq_log")`, in the terms of Spark. It never moves anything."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from sqlalchemy import Connection, Engine, select

import queues
from lr_client.spark.log_format import LogOptions, ranges, read_range
from lr_client.spark.pause import Pause
from queues.errors import NeedsFullSyncError, TrimmedError
from queues.log.sql import newest_tick, trimmed_seq
from queues.tables import branches, ticks
from queues.transactions import reading

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

#: An offset as Spark keeps it: the branch and sequence of the end of a tick.
Kept: TypeAlias = dict[str, Any]


class LogStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches of whole ticks in a process beside the driver, reads them in tasks."""

    def __init__(self, options: LogOptions) -> None:
        """Open nothing: Spark makes several of these, of which one plans."""
        self._options = options
        self._planning: Engine | None = None
        self._pause = Pause()
        self._until: int | None = None

    def initialOffset(self) -> Kept:  # noqa: N802
        """Begin with the oldest entry that is kept."""
        with reading(self._engine, snapshot=True) as connection:
            seq = trimmed_seq(connection)
            return {"branch": _branch_at(connection, seq), "seq": seq}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit that `maxEntriesPerBatch` sets."""
        return ReadMaxRows(self._options.max_entries)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Do not go beyond what is there by now."""
        with reading(self._engine) as connection:
            newest = newest_tick(connection)
        self._until = newest.end_seq if newest else 0

    def latestOffset(self, start: Kept, limit: ReadLimit) -> Kept:  # noqa: N802
        """Return the end of the last tick within the limit, or of the first one; *start* when there is none."""
        with reading(self._engine, snapshot=True) as connection:
            _require(connection, start)
            seq = _end(connection, start["seq"], limit, self._until)
            branch = start["branch"] if seq == start["seq"] else _branch_at(connection, seq)
        if seq != start["seq"]:
            self._pause.reset()
        elif self._until is None:
            self._pause.wait()
        return {"branch": branch, "seq": seq}

    def partitions(self, start: Kept, end: Kept) -> list[InputPartition]:
        """Cut a batch into ranges of ticks."""
        with reading(self._engine, snapshot=True) as connection:
            _require(connection, start)
            _require(connection, end)
            return ranges(connection, start["seq"], end["seq"], self._options.partitions)

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        """Read one range."""
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
    following = select(ticks.c.end_seq).where(ticks.c.end_seq > seq)
    if until is not None:
        following = following.where(ticks.c.end_seq <= until)
    within = following.order_by(ticks.c.end_seq.desc()).limit(1)
    if isinstance(limit, ReadMaxRows):
        within = within.where(ticks.c.end_seq <= seq + limit.max_rows)
    found = connection.execute(within).scalar()
    if found is None:
        found = connection.execute(following.order_by(ticks.c.end_seq).limit(1)).scalar()
    return seq if found is None else int(found)


def _require(connection: Connection, at: Kept) -> None:
    """Make sure that the log goes on from an offset.

    Raises `TrimmedError`, or `NeedsFullSyncError` when the database was restored from an earlier time.
    """
    oldest, newest = trimmed_seq(connection), newest_tick(connection)
    if at["seq"] < oldest:
        raise TrimmedError(requested=at["seq"], oldest=oldest)
    reaches = newest.end_seq if newest else 0
    if at["seq"] > reaches or (at["seq"] and at["branch"] != _branch_at(connection, at["seq"])):
        raise NeedsFullSyncError(
            f"the log does not have {at['branch']}@{at['seq']} any more (it is at {reaches}): "
            "the database was restored from an earlier time. Begin with a new checkpoint"
        )


def _branch_at(connection: Connection, seq: int) -> str:
    """Return the branch of the tick that ends at *seq*, or of the first one."""
    before = select(branches.c.branch).where(branches.c.start_seq < max(seq, 1)).order_by(branches.c.number.desc())
    return connection.execute(before.limit(1)).scalar() or ""
