"""Snapshots built by a real Spark: the driver publishes all of a snapshot or none of it."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from sqlalchemy import Engine, text

from lr_client.snapshot.requests import SnapshotContext, SnapshotTransmitter
from lr_client.spark import SparkSnapshotContext, SparkSnapshotProvider, register
from lr_client.spark.snapshot.mapping import mapped
from tests.lr_client.snapshot.providing import (
    POLICY,
    Provider,
    by_id,
    numbered,
    payloads_of,
    quick,
    ready,
    request,
    rows_of,
    stored,
)
from tests.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

_PATIENCE = 120.0


def transmitter(engine: Engine, spark: Any, build: Callable[..., Any], **options: Any) -> SnapshotTransmitter:
    options = {"poll_interval": 0.02, "backoff": lambda _attempt: 3600.0, **options}
    return SnapshotTransmitter(engine, POLICY, SparkSnapshotProvider(spark, build), **options)


def failed(engine: Engine, sync_id: str) -> str:
    """Wait until an attempt has failed; return its error."""
    return eventually(lambda: by_id(engine, sync_id).error, timeout=_PATIENCE)


def test_every_row_of_the_table_at_the_cut_arrives_once(airports: Engine, spark: Any) -> None:
    def build(spark: Any, context: SparkSnapshotContext) -> Any:
        with airports.begin() as connection:  # after the cut
            connection.execute(text("DELETE FROM airports WHERE id < 300"))
            connection.execute(text("INSERT INTO airports (id, name) VALUES (1, 'late')"))
        table = context.read_table("airports", partitions=4)
        assert table.rdd.getNumPartitions() in (1, 4)
        return table.selectExpr("cast(name as binary) payload", "cast(id as string) item_key", "big")

    (sync_id,) = request(airports, "tokyo")
    with transmitter(airports, spark, build):
        found = ready(airports, sync_id, timeout=_PATIENCE)
    rows = rows_of(airports, sync_id)
    assert sorted((row.payload, row.item_key) for row in rows) == sorted(
        (b"n%d" % n, str(n * 3)) for n in range(1, 1001)
    )
    assert (found.rows, found.base.branch != "") == (1000, True)


def test_columns_keep_their_types_and_values(airports: Engine, spark: Any) -> None:
    def build(spark: Any, context: SparkSnapshotContext) -> Any:
        with airports.begin() as connection:
            connection.execute(text("UPDATE airports SET name = 'late'"))
        one = context.read_table("airports", partitions=1).where("id = 3 or id = 6").orderBy("id")
        return one.selectExpr("cast(concat_ws('|', *) as binary) payload")

    with airports.begin() as connection:
        connection.execute(text("UPDATE airports SET name = NULL, height = NULL WHERE id = 6"))
    (sync_id,) = request(airports, "tokyo")
    with transmitter(airports, spark, build):
        ready(airports, sync_id, timeout=_PATIENCE)
    first, second = sorted(payloads_of(airports, sync_id))
    assert first.startswith(b"3|n1|1.5|2020-02-29|false|12.25|2024-01-02 03:04:05.000006|")
    assert second.startswith(b"6|2020-02-29|true|12.25|")


def test_a_task_that_fails_once_leaves_no_visible_row(site: Engine, spark: Any, tmp_path: Path) -> None:
    mark = tmp_path / "failed once"

    def rows(numbers: Iterator[Any]) -> Iterator[Any]:
        for count, row in enumerate(numbers):
            if row.id >= 5_000 and count == 4_000 and not mark.exists():
                mark.touch()
                raise RuntimeError("the task fails once")
            yield (b"row %d" % row.id,)

    def build(spark: Any, context: SparkSnapshotContext) -> Any:
        return spark.createDataFrame(spark.range(0, 10_000, 1, 2).rdd.mapPartitions(rows), "payload binary")

    (sync_id,) = request(site, "tokyo")
    with transmitter(site, spark, build):
        ready(site, sync_id, timeout=_PATIENCE)
    assert mark.exists()
    assert sorted(payloads_of(site, sync_id)) == sorted(b"row %d" % n for n in range(10_000))
    assert stored(site, sync_id) >= 10_000


def test_a_provider_may_use_the_format_directly(site: Engine, spark: Any) -> None:
    class Own(Provider):
        def provide_full_state_data(self, context: SnapshotContext) -> None:
            register(spark)
            rows = spark.range(0, 10, 1, 2).selectExpr("cast(cast(id as string) as binary) payload")
            url = site.url.render_as_string(hide_password=False)
            rows.write.format("lrq_snapshot").options(url=url, sync_id=context.sync_id).mode("append").save()

    (sync_id,) = request(site, "tokyo")
    with quick(site, Own(numbered(0))):
        ready(site, sync_id, timeout=_PATIENCE)
    assert (by_id(site, sync_id).state, by_id(site, sync_id).attempt) == ("ready", 1)
    assert sorted(payloads_of(site, sync_id)) == [b"%d" % n for n in range(10)]


def test_several_snapshots_of_one_session_may_begin_simultaneously(spark: Any) -> None:
    session = spark.newSession()
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(register, [session] * 4)) == [None] * 4


def test_an_empty_dataframe_is_an_empty_snapshot(site: Engine, spark: Any) -> None:
    (sync_id,) = request(site, "tokyo")
    with transmitter(site, spark, lambda spark, _context: spark.createDataFrame([], "payload binary")):
        assert ready(site, sync_id, timeout=_PATIENCE).rows == 0


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("select 'x' as payload", "the column `payload` is of type string: make it binary"),
        ("select cast('x' as binary) as body", "no column `payload`"),
        ("select cast('x' as binary) as payload, 7 as item_key", "`item_key` is of type int: make it string"),
        ("select cast(null as binary) as payload", "`payload` is NULL"),
        ("select cast(repeat('x', 100) as binary) as payload", "the payload has 100 bytes, the limit is 50"),
        ("select cast(raise_error('no good') as binary) payload", "no good"),
        ("select cast('x' as binary) payload, cast('y' as binary) payload", "the DataFrame has two columns `payload`"),
        ("select cast('x' as binary) payload, cast('y' as binary) PAYLOAD", "`payload` is ambiguous"),
        ("select cast('x' as binary) payload, repeat('k', 513) item_key", "item_key must be a string of 1 to 512"),
        ("select cast('x' as binary) payload, '' item_key", "item_key must be a string of 1 to 512"),
        ("select cast('x' as binary) payload, concat('k', char(0)) item_key", "characters without NUL"),
    ],
)
@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_invalid_rows_are_refused_in_one_sentence(site: Engine, spark: Any, query: str, why: str) -> None:
    (sync_id,) = request(site, "tokyo")
    with transmitter(site, spark, lambda spark, _context: spark.sql(query), max_payload_bytes=50):
        error = failed(site, sync_id)
    assert why in error
    assert "\n" not in error
    assert len(error) <= 500


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (lambda _spark, _context: None, "must return a DataFrame, not NoneType"),
        (lambda spark, _context: spark.sql("select raise_error('no good')").collect(), "no good"),
        (lambda _spark, context: context.read_table("nowhere"), "no table nowhere"),
        (lambda _spark, context: context.read_table("airports", columns=["nothing"]), "no column nothing"),
    ],
)
def test_an_invalid_build_is_refused_in_one_sentence(
    airports: Engine, spark: Any, wanted: Callable[..., Any], why: str
) -> None:
    (sync_id,) = request(airports, "tokyo")
    with transmitter(airports, spark, wanted):
        assert why in failed(airports, sync_id)


def test_a_given_session_that_its_server_has_ended_is_told_with_the_cure(site: Engine) -> None:
    class Ended:
        """The relevant part of a session of Spark Connect after an hour without work."""

        is_stopped = False

        @property
        def version(self) -> str:
            raise PySparkException("(SparkSQLException) [INVALID_HANDLE.SESSION_CLOSED] Session was closed.")

    (sync_id,) = request(site, "tokyo")
    with transmitter(site, Ended(), lambda spark, _context: spark):
        assert failed(site, sync_id) == (
            "the server has ended the session of Spark Connect: start this process again, or give "
            "SparkSnapshotProvider a function that returns a session, such as local_session"
        )


def test_staging_by_spark_connect_is_refused_in_one_sentence(site: Engine, tmp_path: Path) -> None:
    class Connected:
        """The relevant part of a session of Spark Connect: it has no `sparkContext`."""

        version = "4.2.0"

    connected: Any = Connected()
    provider = SparkSnapshotProvider(connected, lambda spark, _context: spark, staging=str(tmp_path))
    (sync_id,) = request(site, "tokyo")
    with SnapshotTransmitter(site, POLICY, provider, poll_interval=0.02, backoff=lambda _attempt: 3600.0):
        assert failed(site, sync_id) == (
            "Spark Connect cannot remove staged copies: leave out `staging`, or give a classic session"
        )


def test_a_newer_request_cancels_the_job_and_only_the_newer_snapshot_is_published(
    site: Engine, spark: Any, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"

    def rows(numbers: Iterator[Any]) -> Iterator[Any]:
        for row in numbers:
            if row.id == 3_000:
                begun.touch()
                threading.Event().wait()
            yield (b"old",)

    def build(spark: Any, context: SparkSnapshotContext) -> Any:
        if context.sync_id == first:
            return spark.createDataFrame(spark.range(0, 5_000, 1, 2).rdd.mapPartitions(rows), "payload binary")
        return spark.range(0, 200, 1, 2).selectExpr("cast('new' as binary) payload")

    (first,) = request(site, "tokyo")
    with transmitter(site, spark, build):
        eventually(begun.exists, timeout=_PATIENCE)
        (second,) = request(site, "tokyo")
        ready(site, second, timeout=_PATIENCE)
        eventually(lambda: not spark.sparkContext.statusTracker().getActiveJobsIds(), timeout=_PATIENCE)
    assert payloads_of(site, second) == [b"new"] * 200
    assert by_id(site, first).state == "cancelled"


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_table_cannot_be_truncated_during_the_reading(airports: Engine, spark: Any) -> None:
    blocked: list[str] = []

    def build(spark: Any, context: SparkSnapshotContext) -> Any:
        table = context.read_table("airports", columns=["name"])
        with airports.connect() as connection:
            connection.execute(text("SET lock_timeout = '50ms'"))
            try:
                connection.execute(text("TRUNCATE airports"))
            except Exception as error:  # noqa: BLE001
                blocked.append(str(error))
        return table.selectExpr("cast(name as binary) payload")

    (sync_id,) = request(airports, "tokyo")
    with transmitter(airports, spark, build):
        assert ready(airports, sync_id, timeout=_PATIENCE).rows == 1000
    assert "lock timeout" in blocked[0]


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_table_that_was_emptied_between_the_cut_and_its_reading_is_read_again(airports: Engine, spark: Any) -> None:
    cuts: list[str] = []

    def build(spark: Any, context: SparkSnapshotContext) -> Any:
        cuts.append(str(context.snapshot))
        if len(cuts) == 1:
            with airports.begin() as connection:
                connection.execute(text("TRUNCATE airports"))
                connection.execute(text("INSERT INTO airports (id, name) VALUES (1, 'new')"))
        return context.read_table("airports", partitions=2).selectExpr("cast(name as binary) payload")

    (sync_id,) = request(airports, "tokyo")
    with transmitter(airports, spark, build, backoff=lambda _attempt: 0.0):
        ready(airports, sync_id, timeout=_PATIENCE)
    assert payloads_of(airports, sync_id) == [b"new"]
    assert len(cuts) == 2


def test_a_worker_exempts_its_modules_from_later_garbage_collections(spark: Any) -> None:
    def exempt(batches: Iterator[Any]) -> Iterator[Any]:
        import gc

        import pyarrow  # type: ignore[import-untyped]

        for _ in batches:
            pass
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array([gc.get_freeze_count()])], ["exempt"])

    def found() -> bool:
        rows = mapped(spark.range(0, 1, 1, 1), exempt, "exempt bigint").collect()
        return bool(rows[0].exempt > 10_000)

    eventually(found, timeout=_PATIENCE)
