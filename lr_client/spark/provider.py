"""Snapshots built by Spark: a function gives the DataFrame, tasks write it, the driver publishes it or nothing.

    def build(spark: SparkSession, context: SparkSnapshotContext) -> DataFrame:
        airports = context.read_table("airports", partitions=4)
        return airports.select(encode("name", "city").alias("payload"), col("id").alias("item_key"))

    transmitter = client.start_snapshot_transmitter(engine, SparkSnapshotProvider(local_session, build))

PySpark is imported when the first snapshot is built, not before.
"""

import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL, Engine, make_url

from lr_client.cut import Cut, connect_at
from lr_client.snapshot_context import SnapshotContext
from lr_client.spark.estimate import about
from lr_client.spark.session import ensure_pyspark, prepare
from lr_client.spark.staging import Staging
from lr_client.spark.watching import JobWatch
from queues.clock import SYSTEM_CLOCK
from queues.errors import SnapshotFailedError
from queues.names import SiteId
from queues.positions import Position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Between two tries to cancel jobs that may not have begun yet, in seconds.
_AGAIN = 0.5
# Two threads that register one format at a time are refused: Spark takes the other's for one of its own.
_REGISTERING = threading.Lock()


class SparkSnapshotContext:
    """What `build` is given: which snapshot it is for, and tables at its cut."""

    def __init__(
        self, spark: "SparkSession", context: SnapshotContext, url: str, staging: "Staging | None" = None
    ) -> None:
        self._spark = spark
        self._context = context
        self._url = url
        self._staging = staging
        self._rows = 0

    @property
    def sync_id(self) -> str:
        """Which snapshot sync this is."""
        return self._context.sync_id

    @property
    def destination(self) -> SiteId:
        """The site that the snapshot is for: give it its own part only.

        As long as `build` does not look at this, one job serves all sites that wait.
        """
        return self._context.destination

    @property
    def destinations(self) -> tuple[SiteId, ...]:
        """All sites that the snapshot is for; the same rows go to each of them."""
        return self._context.destinations

    def expect(self, rows: int) -> None:
        """Say about how many rows there will be; by default it is taken from the tables that are read."""
        self._context.expect(rows)

    @property
    def reason(self) -> str:
        """Why it was asked for."""
        return self._context.reason

    @property
    def base(self) -> Position:
        """The position in the log that `snapshot` was taken at."""
        return self._context.base

    @property
    def snapshot(self) -> Cut:
        """The pinned cut."""
        return self._context.snapshot

    @property
    def cancelled(self) -> bool:
        """Whether nobody wants the result any more."""
        return self._context.cancelled

    def read_table(self, name: str, *, partitions: int = 4, columns: Sequence[str] | None = None) -> "DataFrame":
        """Return a table (`name` or `schema.name`) as it is at the cut, read in parallel by about *partitions* tasks.

        Until the snapshot is built, PostgreSQL keeps others from altering or truncating it. Raises
        `SnapshotFailedError` when there is no such table, or a column has a type that Spark cannot hold: choose
        *columns* then.
        """
        options = {"url": self._url, "cut": str(self.snapshot), "table": name, "partitions": str(partitions)}
        if columns is not None:
            options["columns"] = json.dumps(list(columns))
        with _in_one_sentence():
            table = self._spark.read.format("lrq_table").options(**options).load()
        self.snapshot.keep(name)
        with connect_at(self.snapshot.engine, str(self.snapshot)) as connection:
            self._rows += about(connection, name)
        self._context.expect(self._rows)
        with _in_one_sentence():
            return table if self._staging is None else self._staging.copied(table)


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
            frame = self._build(job.spark, SparkSnapshotContext(job.spark, context, url, staging))
            rows = _checked(frame)
            context.check()
            if staging is not None:
                context.snapshot.close()
            ending.enter_context(_in_one_sentence())
            ending.enter_context(JobWatch(job.spark, job.group, context))
            (
                rows.write.format("lrq_snapshot")
                .options(url=url, sync_id=context.sync_id)
                .options(build=context.attempt.build, generation=str(context.lease.generation))
                .options(max_payload_bytes=str(context.limits.payload_bytes))
                .mode("append")
                .save()
            )
        context.adopt()


def register(spark: "SparkSession") -> None:
    """Let *spark* find the formats of lrq, in this thread too. Repeating it is harmless.

    They are `lrq_receive` and `lrq_log` to read queues, `lrq_table` and `lrq_snapshot` to build snapshots.
    """
    from lr_client.spark.log_format import LogFormat
    from lr_client.spark.receive_format import ReceiveFormat
    from lr_client.spark.snapshot_format import SnapshotFormat
    from lr_client.spark.table_format import TableFormat

    core = getattr(spark, "sparkContext", None)
    if core is not None and core.pythonExec == "python3":  # nobody chose: the workers need what this interpreter has
        core.pythonExec = sys.executable
    # Formats are looked up in the session that is active in this thread; this makes it so.
    spark.createDataFrame([], "payload binary")
    with _REGISTERING:
        for source in (SnapshotFormat, TableFormat, ReceiveFormat, LogFormat):
            spark.dataSource.register(source)


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


@contextmanager
def _in_one_sentence() -> Iterator[None]:
    """Turn what Spark raises into `SnapshotFailedError` with the sentence that matters."""
    try:
        yield
    except SnapshotFailedError:
        raise
    except Exception as error:
        raise SnapshotFailedError(sentence(str(error))) from error


def sentence(printed: str) -> str:
    """Find the line that tells the cause in what Spark printed of a failure, stack traces of two languages included."""
    ours = re.findall(r"^queues\.errors\.\w+: (.+)$", printed, re.MULTILINE)
    if ours:
        return str(ours[-1])
    python = re.findall(r"^(?!org\.|java\.|scala\.)[A-Za-z_][\w.]*(?:Error|Exception): .+$", printed, re.MULTILINE)
    if python:
        return f"the Spark job failed: {python[-1]}"
    java = re.search(r"^: (?:[\w.]+: )?(.+)$", printed, re.MULTILINE)
    first = printed.strip().partition("\n")[0]
    return f"the Spark job failed: {java[1] if java else first}"
