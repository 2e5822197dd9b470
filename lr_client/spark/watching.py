"""Watching a Spark job that builds a snapshot: how many rows and tasks are done, for all who look."""

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Self

from lr_client.snapshot_context import SnapshotContext
from queues.clock import SYSTEM_CLOCK
from queues.errors import LrqError
from queues.snapshots.stored import rows_written
from queues.transactions import reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Between two looks, in seconds.
_LOOK = 1.0


class JobWatch:
    """Notes how far the jobs of one group are, until the end of the block."""

    def __init__(self, spark: "SparkSession", group: str, context: SnapshotContext) -> None:
        self._spark = spark
        self._group = group
        self._context = context
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lrq-spark-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not SYSTEM_CLOCK.wait(self._ended, _LOOK):
            try:
                with reading(self._context.snapshot.engine) as connection:
                    rows = rows_written(connection, self._context.attempt)
                self._context.note(rows, self._tasks())
            except LrqError:
                # The job meets the same, and tells; progress is nobody's condition.
                continue

    def _tasks(self) -> str:
        tracker = self._spark.sparkContext.statusTracker()
        done = planned = 0
        for job in tracker.getJobIdsForGroup(self._group):
            found = tracker.getJobInfo(job)
            for stage in found.stageIds if found else ():
                if (state := tracker.getStageInfo(stage)) is not None:
                    done += state.numCompletedTasks
                    planned += state.numTasks
        return f"{done} of {planned} Spark tasks done" if planned else "Spark is planning"
