"""The jobs of one snapshot in a Spark session: begin, cancel, and tell their progress. Classic, or by Spark Connect."""

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from lr_client.spark.connect import is_connected

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_PLANNING: Final = "Spark is planning"


class SnapshotJobs(Protocol):
    """All jobs that a thread starts between `begin` and `end`, under the name of one snapshot."""

    def begin(self) -> None:
        """Give the next jobs of this thread the name."""

    def end(self) -> None:
        """Let the next jobs of this thread have no name."""

    def cancel(self) -> None:
        """Cancel the jobs that run now; callable from any thread."""

    def progress(self) -> str:
        """Return how many tasks are done, in words."""


def jobs_of(spark: "SparkSession", name: str, destinations: Iterable[str]) -> SnapshotJobs:
    """Return the jobs named *name* of *spark*, a classic session or one of Spark Connect."""
    if is_connected(spark):
        return _ConnectJobs(spark, name)
    return _ClassicJobs(spark.sparkContext, name, f"lrq snapshot for {', '.join(destinations)}")


class _ClassicJobs:
    """A job group."""

    def __init__(self, core: "SparkContext", name: str, description: str) -> None:
        self._core = core
        self._name = name
        self._description = description

    def begin(self) -> None:
        self._core.setJobGroup(self._name, self._description, interruptOnCancel=True)

    def end(self) -> None:
        """A later snapshot of this thread sets its own group."""

    def cancel(self) -> None:
        self._core.cancelJobGroup(self._name)

    def progress(self) -> str:
        tracker = self._core.statusTracker()
        done = planned = 0
        for job in tracker.getJobIdsForGroup(self._name):
            found = tracker.getJobInfo(job)
            for stage in found.stageIds if found else ():
                if (state := tracker.getStageInfo(stage)) is not None:
                    done += state.numCompletedTasks
                    planned += state.numTasks
        return _words(done, planned)


class _ConnectJobs:
    """Operations with a tag; the server tells the progress of each to the thread that waits for the operation."""

    def __init__(self, spark: "SparkSession", name: str) -> None:
        self._spark = spark
        self._tag = name
        self._thread: int | None = None
        self._words = _PLANNING

    def begin(self) -> None:
        self._thread = threading.get_ident()
        self._spark.addTag(self._tag)
        # Spark takes any callable, but its type hints ask for a class.
        self._spark.registerProgressHandler(self._note)  # type: ignore[arg-type]

    def end(self) -> None:
        self._spark.removeProgressHandler(self._note)  # type: ignore[arg-type]
        self._spark.removeTag(self._tag)

    def cancel(self) -> None:
        self._spark.interruptTag(self._tag)

    def progress(self) -> str:
        return self._words

    def _note(self, stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:  # noqa: ARG002 - Spark's signature
        # A session has one list of handlers, and several snapshots may be built in it.
        if threading.get_ident() == self._thread:
            found = list(stages or ())
            done_tasks = sum(stage.num_completed_tasks for stage in found)
            self._words = _words(done_tasks, sum(stage.num_tasks for stage in found))


def _words(done: int, planned: int) -> str:
    return f"{done} of {planned} Spark tasks done" if planned else _PLANNING
