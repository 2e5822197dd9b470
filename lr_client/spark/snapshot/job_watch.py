"""Report the progress of a Spark job that builds a snapshot: finished rows and tasks."""

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Self

from lr_client.snapshot.attempt import SnapshotAttempt
from queues.clock import SYSTEM_CLOCK
from queues.database.transactions import reading
from queues.errors import LrqError
from queues.send_snapshot.stored_parts import rows_written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Seconds between two reports.
_LOOK = 1.0


class JobWatch:
    """Reports the progress of one job group to the attempt every second, until the end of the block."""

    def __init__(self, spark: "SparkSession", group: str, attempt: SnapshotAttempt) -> None:
        self._spark = spark
        self._group = group
        self._attempt = attempt
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
                with reading(self._attempt.cut.engine) as connection:
                    rows = rows_written(connection, self._attempt.claimed)
                self._attempt.note(rows, self._tasks())
            except LrqError:
                # The job meets the same error and reports it; the build does not depend on progress.
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
