"""Report the progress of a Spark job that builds a snapshot: finished rows and tasks."""

import threading
from types import TracebackType
from typing import Self

from lr_client.snapshot.attempt import SnapshotAttempt
from lr_client.spark.snapshot.jobs import SnapshotJobs
from queues.clock import SYSTEM_CLOCK
from queues.database.transactions import reading
from queues.errors import LrqError
from queues.send_snapshot.stored_parts import rows_written

#: Seconds between two reports.
_LOOK = 1.0


class JobWatch:
    """Reports the progress of the jobs of one snapshot to the attempt every second, until the end of the block."""

    def __init__(self, jobs: SnapshotJobs, attempt: SnapshotAttempt) -> None:
        self._jobs = jobs
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
                self._attempt.note(rows, self._jobs.progress())
            except LrqError:
                # The job meets the same error and reports it; the build does not depend on progress.
                continue
