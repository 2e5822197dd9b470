"""Rows of 20 MB: refused in one sentence by the usual limits, and sent if all limits are raised."""

from typing import Any

import pytest
from sqlalchemy import Engine, text

from lr_client.snapshot.requests import SnapshotTransmitter
from lr_client.spark import SparkSnapshotContext, SparkSnapshotProvider
from tests.lr_client.snapshot.providing import by_id, request
from tests.lr_client.spark.faults import readings
from tests.system.world import World
from tests.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

_MB = 1_000_000
_LARGE = 20 * _MB
_SIZES = [_LARGE, 10, _LARGE]
_MIB = 1024**2
_ALLOWED = {"max_payload_bytes": 24 * _MIB, "max_message_bytes": 32 * _MIB}


def fill(site: Engine) -> None:
    with site.begin() as connection:
        connection.execute(text("CREATE TABLE pictures (id INTEGER PRIMARY KEY, words TEXT NOT NULL)"))
        for number, size in enumerate(_SIZES):
            row = {"id": number, "words": f"{number}".ljust(size, "x")}
            connection.execute(text("INSERT INTO pictures VALUES (:id, :words)"), row)


def build(_spark: Any, context: SparkSnapshotContext) -> Any:
    return context.read_table("pictures").selectExpr("cast(words as binary) payload", "cast(id as string) item_key")


@pytest.mark.nightly
def test_large_rows_are_refused_in_one_sentence(site: Engine, spark: Any) -> None:
    fill(site)
    (sync_id,) = request(site, "tokyo")
    provider = SparkSnapshotProvider(spark, build)
    with SnapshotTransmitter(site, "policy", provider, poll_interval=0.02, backoff=lambda _attempt: 3600.0):
        error = eventually(lambda: by_id(site, sync_id).error, timeout=readings.PATIENCE)
    assert f"payload has {_LARGE} bytes, the limit is {16 * _MIB}" in error
    assert "\n" not in error


def test_large_rows_arrive_if_the_limits_of_all_sides_allow_them(world: World, spark: Any) -> None:
    fill(world.site("paris"))
    recorder = world.subscribe("tokyo")
    provider = SparkSnapshotProvider(spark, build)
    options = {"max_payload_bytes": _ALLOWED["max_payload_bytes"], "poll_interval": 0.05}
    with SnapshotTransmitter(world.site("paris"), "policy", provider, **options):
        tokyo = world.server("tokyo", **_ALLOWED)
        world.begun("paris", "tokyo")
        world.server("paris", peers={"tokyo": tokyo.endpoints[0]}, **_ALLOWED)
        eventually(lambda: "complete 1" in recorder.kinds("paris"), timeout=readings.PATIENCE)
    sent = [f"{number}".ljust(size, "x").encode() for number, size in enumerate(_SIZES)]
    assert sorted(recorder.snapshot("paris")) == sorted(sent)
