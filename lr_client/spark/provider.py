"""Snapshots built by Spark: a function gives the DataFrame, tasks write it, the driver publishes it or nothing.

    def build(spark: SparkSession, context: SparkSnapshotContext) -> DataFrame:
        airports = context.read_table("airports", partitions=4)
        return airports.select(encode("name", "city").alias("payload"), col("id").alias("item_key"))

    transmitter = client.start_snapshot_transmitter(engine, SparkSnapshotProvider(local_session, build))

PySpark is imported when the first snapshot is built, not before.
"""

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL, Engine, make_url

from lr_client.snapshot_context import SnapshotContext
from lr_client.spark.context import SparkSnapshotContext
from lr_client.spark.formats import register
from lr_client.spark.session import ensure_pyspark, prepare
from lr_client.spark.staging import Staging
from lr_client.spark.watching import JobWatch
from lr_client.spark.words import in_one_sentence
from queues.clock import SYSTEM_CLOCK
from queues.errors import SnapshotFailedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Between two tries to cancel jobs that may not have begun yet, in seconds.
_AGAIN = 0.5


Build = Callable[["SparkSession", SparkSnapshotContext], "DataFrame"]


class _Job:
    """One snapshot that Spark is building."""

    def __init__(self, spark: "SparkSession", group: str) -> None:
        self.spark = spark
        self.group = group
        self.ended = threading.Event()


class SparkSnapshotProvider:
    """A `SnapshotProvider` that has Spark build the rows.

    `build(spark, context)` returns a DataFrame with a column `payload` (binary, never NULL) and, if wanted, one
    `item_key` (string); other columns are left out. It is called once an attempt and may run jobs of its own.
    """

    def __init__(
        self,
        spark: "SparkSession | Callable[[], SparkSession]",
        build: Build,
        *,
        url: str | URL | None = None,
        staging: str | None = None,
    ) -> None:
        """Build with *spark*: a session, or a function that returns one, called for each snapshot.

        Spark's tasks write into the database at *url*, by default that of the transmitter's engine; give it when
        they run on other machines, or when the engine was made with a `creator`.

        For jobs of hours give *staging*, a folder or URI that all tasks can reach: tables are copied there first, and
        the database holds the cut only until `build` has returned. Read tables with `context.read_table` then.
        """
        self._spark = spark
        self._build = build
        self._url = None if url is None else make_url(url)
        self._staging = staging
        self._guard = threading.Lock()
        self._jobs: dict[str, _Job] = {}

    def provide_full_state_data(self, context: SnapshotContext) -> None:
        """See `SnapshotProvider`. Raises `MissingDependencyError` with what to install, `SnapshotFailedError`."""
        spark = self._session()
        build = context.attempt.build
        job = _Job(spark, f"lrq {build}")
        with self._guard:
            self._jobs[build] = job
        try:
            self._run(job, context)
        except SnapshotFailedError:
            context.check()  # a cancelled job says that it failed
            raise
        finally:
            job.ended.set()
            with self._guard:
                del self._jobs[build]

    def cancel(self, context: SnapshotContext) -> None:
        """See `SnapshotProvider`. Ends the jobs of this snapshot, also those that have yet to begin."""
        with self._guard:
            job = self._jobs.get(context.attempt.build)
        while job is not None and not job.ended.is_set():
            job.spark.sparkContext.cancelJobGroup(job.group)
            SYSTEM_CLOCK.wait(job.ended, _AGAIN)

    def _session(self) -> "SparkSession":
        if not callable(self._spark):
            ensure_pyspark()
            return self._spark
        prepare()
        return self._spark()

    def _run(self, job: _Job, context: SnapshotContext) -> None:
        context.check()
        url = _shared(context.snapshot.engine, self._url)
        _make_ready(job, context)
        staging = None if self._staging is None else Staging(job.spark, self._staging, context.attempt.build)
        with ExitStack() as ending:
            if staging is not None:
                ending.callback(staging.remove)
            with in_one_sentence(only_of_spark=True):  # what build raises itself is its own
                frame = self._build(job.spark, SparkSnapshotContext(job.spark, context, url, staging))
            rows = _checked(frame)
            context.check()
            if staging is not None:
                context.snapshot.close()
            ending.enter_context(in_one_sentence())
            ending.enter_context(JobWatch(job.spark, job.group, context))
            (
                rows.write.format("lrq_snapshot")
                .options(url=url, sync_id=context.sync_id)
                .options(build=context.attempt.build, generation=str(context.lease.generation))
                .options(max_payload_bytes=str(context.limits.payload_bytes), block_rows=str(context.limits.block_rows))
                .mode("append")
                .save()
            )
        context.adopt()


def _make_ready(job: _Job, context: SnapshotContext) -> None:
    spark = job.spark
    core = getattr(spark, "sparkContext", None)
    if core is None:
        raise SnapshotFailedError(
            "Spark Connect cannot build snapshots yet: give SparkSnapshotProvider a classic session"
        )
    core.setJobGroup(job.group, f"lrq snapshot for {', '.join(context.destinations[:5])}", interruptOnCancel=True)
    register(spark)


def _checked(frame: object) -> "DataFrame":
    """Return the columns that count; raise `SnapshotFailedError` for anything but a DataFrame that has them."""
    from pyspark.sql import DataFrame

    from lr_client.spark.snapshot_format import check_schema

    if not isinstance(frame, DataFrame):
        raise SnapshotFailedError(f"build must return a DataFrame, not {type(frame).__name__}")
    check_schema(frame.schema)
    return frame.select(*(name for name in ("payload", "item_key") if name in frame.columns))


def _shared(engine: Engine, given: URL | None) -> str:
    """Return the URL by which other processes reach the database."""
    url = engine.url if given is None else given
    if url.get_backend_name() == "sqlite":
        if not url.database or url.database.startswith((":", "file:")):
            raise SnapshotFailedError("Spark's tasks are processes of their own: they need a SQLite database in a file")
        url = url.set(database=os.fspath(Path(url.database).absolute()))
    return url.render_as_string(hide_password=False)
