"""Spark jobs in operation: one job for several sites, copies that free the database, progress in the status."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from lr_client.snapshot.requests import SnapshotTransmitter
from lr_client.spark import SparkSnapshotContext, SparkSnapshotProvider
from lr_client.spark.snapshot.staging import TableCopies
from queues.database.transactions import writing
from queues.errors import SnapshotFailedError
from queues.names import ClientName
from queues.send_snapshot import claims
from tests.lr_client.snapshot.providing import (
    POLICY,
    by_id,
    claim,
    newest,
    payloads_of,
    publish,
    ready,
    request,
    rows_of,
    stored,
    write_part,
)
from tests.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

_PATIENCE = 120.0


def named(table: Any) -> Any:
    return table.selectExpr("cast(name as binary) payload", "cast(id as string) item_key")


def test_one_job_serves_all_waiting_sites_and_its_rows_are_stored_once(airports: Engine, spark: Any) -> None:
    built: list[tuple[str, ...]] = []

    def build(spark: Any, context: SparkSnapshotContext) -> Any:
        built.append(context.destinations)
        return named(context.read_table("airports", partitions=4))

    provider = SparkSnapshotProvider(spark, build)
    with SnapshotTransmitter(airports, POLICY, provider, poll_interval=0.02, share_window=2.0):
        asked = [request(airports, destination)[0] for destination in ("tokyo", "lima")]
        for sync_id in asked:
            ready(airports, sync_id, timeout=_PATIENCE)
    assert built == [("tokyo", "lima")]
    assert stored(airports) == 1000
    assert rows_of(airports, asked[0]) == rows_of(airports, asked[1])


def test_sites_with_different_parts_have_a_job_each(airports: Engine, spark: Any) -> None:
    def build(spark: Any, context: SparkSnapshotContext) -> Any:
        first = context.destination == "tokyo"
        return named(context.read_table("airports").where("id <= 1500" if first else "id > 1500"))

    tokyo, lima = request(airports, "tokyo", "lima")
    provider = SparkSnapshotProvider(spark, build)
    with SnapshotTransmitter(airports, POLICY, provider, poll_interval=0.02):
        assert ready(airports, tokyo, timeout=_PATIENCE).rows == 500
        assert ready(airports, lima, timeout=_PATIENCE).rows == 500
    assert not set(payloads_of(airports, tokyo)) & set(payloads_of(airports, lima))


def test_a_staged_job_works_on_copies_and_holds_no_cut_in_the_database(
    airports: Engine, spark: Any, tmp_path: Path
) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    contexts: list[SparkSnapshotContext] = []

    def held(rows: Iterator[Any]) -> Iterator[Any]:
        begun.touch()
        while not go.exists():
            threading.Event().wait(0.02)
        yield from rows

    def build(spark: Any, context: SparkSnapshotContext) -> Any:
        contexts.append(context)
        table = named(context.read_table("airports"))
        return spark.createDataFrame(table.rdd.mapPartitions(held), table.schema)

    (sync_id,) = request(airports, "tokyo")
    staging = tmp_path / "staging"
    provider = SparkSnapshotProvider(spark, build, staging=str(staging))
    with SnapshotTransmitter(airports, POLICY, provider, poll_interval=0.02):
        eventually(begun.exists, timeout=_PATIENCE)
        with pytest.raises(SnapshotFailedError, match="is closed"), contexts[0].snapshot.connect():
            pass
        with airports.begin() as connection:
            connection.execute(text("DROP TABLE airports"))
        go.touch()
        ready(airports, sync_id, timeout=_PATIENCE)
        eventually(lambda: list(staging.iterdir()) == [], timeout=_PATIENCE)
    assert sorted(payloads_of(airports, sync_id)) == sorted(b"n%d" % n for n in range(1, 1001))


class Folder:
    """A folder for the copies of attempts."""

    def __init__(self, engine: Engine, spark: Any, path: Path) -> None:
        self.path = path
        self._engine = engine
        self._spark = spark

    def copies(self, build: str) -> TableCopies:
        return TableCopies(self._spark, f"{self.path}/", build, self._engine)

    def copied(self, build: str) -> TableCopies:
        copies = self.copies(build)
        copies.copied(self._spark.range(3))
        return copies

    @property
    def builds(self) -> set[str]:
        return {folder.name.removeprefix("lrq-") for folder in self.path.iterdir()}


@pytest.fixture
def folder(site: Engine, spark: Any, tmp_path: Path) -> Folder:
    return Folder(site, spark, tmp_path)


def test_two_attempts_of_one_snapshot_have_folders_of_their_own(site: Engine, spark: Any, folder: Folder) -> None:
    request(site, "tokyo")
    killed = folder.copied(claim(site).build)
    newer = folder.copies(claim(site).build)
    assert folder.builds == set()
    copy = newer.copied(spark.range(4))
    # The earlier process was stopped and goes on.
    killed.copied(spark.range(3))
    killed.remove()
    assert copy.count() == 4
    newer.remove()
    newer.remove()
    assert folder.builds == set()


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_job_removes_the_copies_that_killed_jobs_of_other_snapshots_have_left(site: Engine, folder: Folder) -> None:
    folder.copied("snapshot of another site.1")
    request(site, "tokyo")
    folder.copied(claim(site).build)
    request(site, "tokyo")
    published = claim(site)
    folder.copied(published.build)
    publish(site, published, write_part(site, published, 0, [b"row"]))
    request(site, "lima")
    running = claim(site)
    folder.copied(running.build)
    assert folder.builds == {"snapshot of another site.1", running.build}
    request(site, "nairobi", client="policy_v2")
    with writing(site) as connection:
        (other,) = claims.claim(connection, ClientName("policy_v2"), "me", limit=1)
    folder.copied(other.build)
    assert folder.builds == {"snapshot of another site.1", running.build, other.build}


def test_a_job_shows_the_number_of_rows_and_tasks_done(airports: Engine, spark: Any, tmp_path: Path) -> None:
    go = tmp_path / "go"

    def held(part: int, rows: Iterator[Any]) -> Iterator[Any]:
        while part == 1 and not go.exists():
            threading.Event().wait(0.02)
        yield from rows

    def build(spark: Any, context: SparkSnapshotContext) -> Any:
        context.expect(5_000)
        numbers = spark.range(0, 5_000, 1, 2).selectExpr("cast(cast(id as string) as binary) payload")
        return spark.createDataFrame(numbers.rdd.mapPartitionsWithIndex(held), numbers.schema)

    (sync_id,) = request(airports, "tokyo")
    with SnapshotTransmitter(airports, POLICY, SparkSnapshotProvider(spark, build), poll_interval=0.02):
        found = eventually(lambda: by_id(airports, sync_id).rows == 2_500 and newest(airports), timeout=_PATIENCE)
        assert (found.state, found.rows, found.expected_rows) == ("building", 2_500, 5_000)
        assert "of 2 Spark tasks done" in found.progress
        go.touch()
        assert ready(airports, sync_id, timeout=_PATIENCE).rows == 5_000


def test_the_expected_number_of_rows_comes_from_the_table_s_statistics(airports: Engine, spark: Any) -> None:
    with airports.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE airports"))
    (sync_id,) = request(airports, "tokyo")
    provider = SparkSnapshotProvider(spark, lambda _spark, context: named(context.read_table("airports")))
    with SnapshotTransmitter(airports, POLICY, provider, poll_interval=0.02):
        found = ready(airports, sync_id, timeout=_PATIENCE)
    assert 1_000 <= found.expected_rows <= 3_000
