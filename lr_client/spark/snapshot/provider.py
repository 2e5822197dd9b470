"""Snapshots built by Spark: a function returns a DataFrame, tasks write its rows, the driver publishes them together.

    def build(spark: SparkSession, context: SparkSnapshotContext) -> DataFrame:
        airports = context.read_table("airports", partitions=4)
        return airports.select(encode("name", "city").alias("payload"), col("id").alias("item_key"))

    transmitter = client.start_snapshot_transmitter(engine, SparkSnapshotProvider(local_session, build))

PySpark is imported only when the first snapshot is built.
"""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import URL, Engine, make_url

from lr_client.objects import require_plain
from lr_client.snapshot.context import SnapshotContext
from lr_client.spark.connect import has_ended, is_connected
from lr_client.spark.errors import in_one_sentence
from lr_client.spark.formats import register
from lr_client.spark.machine import has_died
from lr_client.spark.options import shared_url
from lr_client.spark.session import ensure_pyspark, prepare
from lr_client.spark.snapshot.context import SparkSnapshotContext
from lr_client.spark.snapshot.job_watch import JobWatch
from lr_client.spark.snapshot.jobs import jobs_of
from lr_client.spark.snapshot.staging import TableCopies
from queues.clock import SYSTEM_CLOCK
from queues.errors import SnapshotFailedError, UsageError
from queues.send_snapshot.states import Part

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Seconds between two attempts to cancel jobs, because a job may not have begun at the first one.
_AGAIN = 0.5
_GIVE_FUNCTION = (
    "start this process again, or give SparkSnapshotProvider a function that returns a session, such as local_session"
)


Build = Callable[["SparkSession", SparkSnapshotContext], "DataFrame"]


class _Build:
    """One snapshot that Spark is building."""

    def __init__(self, spark: "SparkSession", context: SnapshotContext) -> None:
        attempt = context.attempt
        self.spark = spark
        self.jobs = jobs_of(spark, f"lrq {attempt.build}", attempt.destinations[:5])
        self.ended = threading.Event()


class SparkSnapshotProvider:
    """A `SnapshotProvider` whose rows Spark builds.

    `build(spark, context)` returns a DataFrame with a column `payload` (binary, never NULL), and optionally `item_key`
    (string). Other columns are ignored. `build` is called once per attempt and may run jobs.
    """

    def __init__(
        self,
        spark: "SparkSession | Callable[[], SparkSession]",
        build: Build,
        *,
        url: str | URL | None = None,
        staging: str | None = None,
    ) -> None:
        """Build with *spark*: a session, or a function that returns one and is called for each snapshot.

        Sessions of Spark Connect serve too, without *staging*.

        Spark's tasks write into the database at *url*, by default the URL of the transmitter's engine. Give *url* when
        tasks run on other machines, or when the engine was made with a `creator`.

        For jobs of hours, give *staging*, a folder or URI that all tasks can reach. Tables read with
        `context.read_table` are copied there first, so the database holds the cut only until `build` returns.
        """
        require_plain(build, "build")
        self._spark = spark
        self._build = build
        self._url = None if url is None else make_url(url)
        self._staging = staging
        self._guard = threading.Lock()
        self._builds: dict[str, _Build] = {}
        self._latest: SparkSession | None = None

    def provide_full_state_data(self, context: SnapshotContext) -> None:
        """See `SnapshotProvider`.

        Raises `MissingDependencyError`, whose text says how to install Spark, and `SnapshotFailedError`.
        """
        build = _Build(self._session(), context)
        with self._guard:
            self._builds[context.attempt.build] = build
        try:
            self._run(build, context)
        except Exception as error:
            if isinstance(error, SnapshotFailedError):
                context.attempt.check()  # a cancelled job also fails: report the cancellation instead
            if has_died():
                raise SnapshotFailedError("the Java process of Spark died during the build: has it memory?") from error
            raise
        finally:
            build.ended.set()
            with self._guard:
                del self._builds[context.attempt.build]

    def cancel(self, context: SnapshotContext) -> None:
        """See `SnapshotProvider`. Cancels all jobs of this snapshot, including jobs that begin later."""
        with self._guard:
            build = self._builds.get(context.attempt.build)
        while build is not None and not build.ended.is_set():
            build.jobs.cancel()
            SYSTEM_CLOCK.wait(build.ended, _AGAIN)

    def _copies(self, spark: "SparkSession", context: SnapshotContext) -> TableCopies | None:
        if self._staging is None:
            return None
        with in_one_sentence(only_of_spark=True):
            return TableCopies(spark, self._staging, context.attempt.build, context.snapshot.engine)

    def _session(self) -> "SparkSession":
        if not callable(self._spark):
            ensure_pyspark()
            if has_died():
                raise SnapshotFailedError(f"the Java process of the Spark session has ended: {_GIVE_FUNCTION}")
            with in_one_sentence(only_of_spark=True):
                if has_ended(self._spark):
                    raise SnapshotFailedError(f"the server has ended the session of Spark Connect: {_GIVE_FUNCTION}")
            return self._spark
        prepare()
        with in_one_sentence(only_of_spark=True):
            # PySpark's builder returns an ended session again until its `stop`.
            if self._latest is not None and has_ended(self._latest):
                self._latest.stop()
            self._latest = self._spark()
            return self._latest

    def _run(self, build: _Build, context: SnapshotContext) -> None:
        context.attempt.check()
        spark, url = build.spark, _shared(context.snapshot.engine, self._url)
        if self._staging is not None and is_connected(spark):
            raise SnapshotFailedError(
                "Spark Connect cannot remove staged copies: leave out `staging`, or give a classic session"
            )
        with ExitStack() as ending:
            with in_one_sentence():
                build.jobs.begin()
                ending.callback(build.jobs.end)
                register(spark)
            staging = self._copies(spark, context)
            if staging is not None:
                ending.callback(staging.remove)
            with in_one_sentence(only_of_spark=True):  # errors of the function itself pass unchanged
                frame = self._build(spark, SparkSnapshotContext(spark, context, url, staging))
            rows = _checked(frame)
            context.attempt.check()
            if staging is not None:
                context.snapshot.close()
            with in_one_sentence(), JobWatch(build.jobs, context.attempt):
                parts = _written(rows, context, url)
            context.attempt.publish(parts)


def _written(rows: "DataFrame", context: SnapshotContext, url: str) -> list[Part]:
    """Write *rows* in Spark's tasks; return the parts to publish."""
    from lr_client.spark.snapshot.part_task import PartTask, usual_limits, write_parts

    attempt, given = context.attempt, context.attempt.limits
    limits = replace(
        usual_limits(context.snapshot.engine), payload_bytes=given.payload_bytes, block_rows=given.block_rows
    )
    return write_parts(rows, PartTask(url, attempt.claimed, limits))


def _checked(frame: object) -> "DataFrame":
    """Return *frame* with only `payload` and `item_key`; raise `SnapshotFailedError` unless it has valid columns."""
    from pyspark.sql import DataFrame

    from lr_client.spark.snapshot.format import check_schema

    if not isinstance(frame, DataFrame):
        raise SnapshotFailedError(f"build must return a DataFrame, not {type(frame).__name__}")
    with in_one_sentence():
        # With Spark Connect the server looks at the function's work only here.
        check_schema(frame.schema)
        return frame.select(*(name for name in ("payload", "item_key") if name in frame.columns))


def _shared(engine: Engine, given: URL | None) -> str:
    """Return the URL of the database for other processes; raise `SnapshotFailedError` if there is none."""
    try:
        return shared_url(engine.url if given is None else given)
    except UsageError as error:
        raise SnapshotFailedError(str(error)) from error
