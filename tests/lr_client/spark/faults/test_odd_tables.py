"""Tables that are empty, full of NULLs, wide, several, or altered during the reading."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, text

from lr_client.snapshot.requests import SnapshotTransmitter
from lr_client.spark import SparkSnapshotContext, SparkSnapshotProvider
from tests.lr_client.snapshot.providing import by_id, payloads_of, ready, request, rows_of
from tests.lr_client.spark.faults import readings
from tests.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def transmitter(site: Engine, spark: Any, build: Callable[..., Any]) -> SnapshotTransmitter:
    provider = SparkSnapshotProvider(spark, build)
    return SnapshotTransmitter(site, "policy", provider, poll_interval=0.02, backoff=lambda _attempt: 3600.0)


def make(site: Engine, *statements: str) -> None:
    with site.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


def test_an_empty_table_is_an_empty_snapshot(site: Engine, spark: Any) -> None:
    def build(_spark: Any, context: SparkSnapshotContext) -> Any:
        return context.read_table("empty").selectExpr("cast(words as binary) payload")

    make(site, "CREATE TABLE empty (id INTEGER PRIMARY KEY, words TEXT)")
    (sync_id,) = request(site, "tokyo")
    with transmitter(site, spark, build):
        assert ready(site, sync_id, timeout=readings.PATIENCE).rows == 0


def test_a_null_of_every_type_stays_null(site: Engine, spark: Any) -> None:
    def build(_spark: Any, context: SparkSnapshotContext) -> Any:
        return context.read_table("odd").selectExpr("cast(to_json(struct(*)) as binary) payload")

    blob = "BYTEA" if site.dialect.name == "postgresql" else "BLOB"
    types = ["TEXT", "REAL", "DATE", "BOOLEAN", "NUMERIC(10, 2)", "TIMESTAMP", blob, "BIGINT", "SMALLINT", "VARCHAR(9)"]
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(types))
    make(site, f"CREATE TABLE odd (id INTEGER PRIMARY KEY, {columns})", "INSERT INTO odd (id) VALUES (1), (2)")
    (sync_id,) = request(site, "tokyo")
    with transmitter(site, spark, build):
        ready(site, sync_id, timeout=readings.PATIENCE)
    assert sorted(payloads_of(site, sync_id)) == [b'{"id":1}', b'{"id":2}']


def test_several_tables_make_one_snapshot_and_a_site_gets_only_its_part(site: Engine, spark: Any) -> None:
    def build(_spark: Any, context: SparkSnapshotContext) -> Any:
        def part(name: str) -> Any:
            rows = context.read_table(name).where(f"site = '{context.destination}'")
            return rows.selectExpr("cast(words as binary) payload", f"concat('{name}/', id) item_key")

        return part("airports").unionByName(part("runways"))

    for name in ("airports", "runways"):
        make(
            site,
            f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, words TEXT, site TEXT)",
            f"INSERT INTO {name} VALUES (1, '{name} of tokyo', 'tokyo'), (2, '{name} of lima', 'lima')",
        )
    wanted = request(site, "tokyo", "lima")
    with transmitter(site, spark, build):
        for sync_id in wanted:
            destination = ready(site, sync_id, timeout=readings.PATIENCE).destination
            number = 1 if destination == "tokyo" else 2
            assert sorted((row.payload.decode(), row.item_key) for row in rows_of(site, sync_id)) == [
                (f"airports of {destination}", f"airports/{number}"),
                (f"runways of {destination}", f"runways/{number}"),
            ]


@pytest.mark.parametrize("change", ["ALTER TABLE readings DROP COLUMN words", "DROP TABLE readings"])
def test_a_table_altered_during_the_job_is_read_as_at_the_cut_or_cannot_be_altered(
    site: Engine, spark: Any, change: str
) -> None:
    refused: list[str] = []

    def build(_spark: Any, context: SparkSnapshotContext) -> Any:
        table = context.read_table("readings", partitions=2)
        with site.connect() as connection:
            if site.dialect.name == "postgresql":
                connection.execute(text("SET lock_timeout = '50ms'"))
            try:
                connection.execute(text(change))
                connection.commit()
            except Exception as error:  # noqa: BLE001
                refused.append(str(error))
        return table.selectExpr("cast(words as binary) payload", "cast(id as string) item_key")

    readings.create(site)
    wanted = readings.contents(site)
    (sync_id,) = request(site, "tokyo")
    with transmitter(site, spark, build):
        ready(site, sync_id, timeout=readings.PATIENCE)
    assert readings.published(site, sync_id) == wanted
    assert ["lock timeout" in words for words in refused] == ([True] if site.dialect.name == "postgresql" else [])


def test_a_column_dropped_between_cut_and_job_is_reported_in_one_sentence(site: Engine, spark: Any) -> None:
    def build(_spark: Any, context: SparkSnapshotContext) -> Any:
        make(site, "ALTER TABLE readings DROP COLUMN words")
        return context.read_table("readings").selectExpr("cast(words as binary) payload")

    readings.create(site)
    wanted = readings.contents(site)
    (sync_id,) = request(site, "tokyo")
    with transmitter(site, spark, build):
        if site.dialect.name == "sqlite":  # the cut is a copy
            ready(site, sync_id, timeout=readings.PATIENCE)
            assert sorted(payloads_of(site, sync_id)) == [payload for payload, _ in wanted]
            return
        error = eventually(lambda: by_id(site, sync_id).error, timeout=readings.PATIENCE)
    assert "words" in error
    assert "\n" not in error
