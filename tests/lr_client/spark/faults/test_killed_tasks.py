"""Python workers of Spark that die in the middle of their rows."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql.types import StructType
from sqlalchemy import Engine

from lr_client.snapshot.requests import SnapshotContext, SnapshotTransmitter
from lr_client.spark import SparkSnapshotContext, SparkSnapshotProvider, register
from lr_client.spark.snapshot.format import SnapshotFormat, SnapshotWriter
from lr_client.spark.snapshot.part_task import PartTask, usual_limits, write_parts
from queues.send_snapshot.states import Part
from tests.lr_client.snapshot.providing import Provider, numbered, quick, ready, request
from tests.lr_client.spark.faults import readings

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

LONG_ROWS = sorted((b"%d%s" % (n, b"x" * 200), str(n)) for n in range(readings.ROWS))


def long_rows(spark: Any) -> Any:
    """Return `LONG_ROWS` as a DataFrame of two partitions."""
    rows = spark.range(0, readings.ROWS, 1, 2)
    return rows.selectExpr("cast(concat(id, repeat('x', 200)) as binary) payload", "cast(id as string) item_key")


def die_in_the_second_part(things: Iterator[Any], after: int) -> Iterator[Any]:
    """Yield *things*, but end the process after the first *after* of them, in the first try of the second part."""
    task = TaskContext.get()
    for number, thing in enumerate(things, 1):
        yield thing
        if task is not None and (task.partitionId(), task.attemptNumber()) == (1, 0) and number >= after:
            os._exit(1)


def exact(site: Engine, sync_id: str, wanted: list[tuple[bytes, str]]) -> None:
    """Check that the snapshot has these rows and none of the dead try, before and after garbage collection."""
    assert ready(site, sync_id, timeout=readings.PATIENCE).attempt == 1
    assert readings.published(site, sync_id) == wanted
    assert readings.collect(site) == len(wanted)
    assert readings.published(site, sync_id) == wanted


@pytest.mark.nightly
def test_a_worker_that_dies_while_reading_is_repeated_from_its_first_row(site: Engine, spark: Any) -> None:
    def build(spark: Any, context: SparkSnapshotContext) -> Any:
        readings.change(site)
        rows = context.read_table("readings", partitions=2)
        rows = rows.selectExpr("cast(words as binary) payload", "cast(id as string) item_key")
        dying = rows.rdd.mapPartitions(lambda part: die_in_the_second_part(part, 24_000))
        return spark.createDataFrame(dying, "payload binary, item_key string")

    readings.create(site)
    wanted = readings.contents(site)
    (sync_id,) = request(site, "tokyo")
    with SnapshotTransmitter(site, "policy", SparkSnapshotProvider(spark, build), poll_interval=0.02):
        exact(site, sync_id, wanted)


def test_a_worker_that_dies_while_writing_is_repeated_from_its_first_row(site: Engine, spark: Any) -> None:
    class DyingTask(PartTask):
        def write(self, batches: Iterator[Any]) -> Part:
            return PartTask.write(self, die_in_the_second_part(batches, 12))

    class Own(Provider):
        def provide_full_state_data(self, context: SnapshotContext) -> None:
            url = site.url.render_as_string(hide_password=False)
            task = DyingTask(url, context.attempt.claimed, usual_limits(site))
            context.attempt.publish(write_parts(long_rows(spark), task))

    (sync_id,) = request(site, "tokyo")
    with quick(site, Own(numbered(0))):
        ready(site, sync_id, timeout=readings.PATIENCE)
        assert sum(readings.written(site).values()) > readings.ROWS
        exact(site, sync_id, LONG_ROWS)


def test_a_worker_that_dies_while_writing_by_the_format_is_repeated(site: Engine, spark: Any) -> None:
    class DyingWriter(SnapshotWriter):
        def write(self, iterator: Iterator[Any]) -> Any:
            return SnapshotWriter.write(self, die_in_the_second_part(iterator, 12))

    class DyingFormat(SnapshotFormat):
        @classmethod
        def name(cls) -> str:
            return "dying"

        def writer(self, schema: StructType, overwrite: bool) -> SnapshotWriter:
            whole = SnapshotFormat.writer(self, schema, overwrite)
            return DyingWriter(whole._url, whole._attempt, whole._lease, whole._limits)

    class Own(Provider):
        def provide_full_state_data(self, context: SnapshotContext) -> None:
            register(spark)
            spark.dataSource.register(DyingFormat)
            url = site.url.render_as_string(hide_password=False)
            long_rows(spark).write.format("dying").options(url=url, sync_id=context.sync_id).mode("append").save()

    (sync_id,) = request(site, "tokyo")
    with quick(site, Own(numbered(0))):
        ready(site, sync_id, timeout=readings.PATIENCE)
        assert sum(readings.written(site).values()) > readings.ROWS
        exact(site, sync_id, LONG_ROWS)
