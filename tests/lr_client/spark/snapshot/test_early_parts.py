"""The rows of a part may leave once its task has ended, while other tasks of the job go on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from lr_client.spark import SparkSnapshotContext, SparkSnapshotProvider
from queues import send_snapshot
from queues.database.transactions import reading
from queues.send_snapshot import RowPlace
from tests.lr_client.snapshot.providing import by_id, quick, ready, request, rows_of
from tests.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PATIENCE = 120.0


def waiting(folder: str) -> Any:
    """Return a function for `mapPartitions` that waits in the second part for the file `go`."""

    def wait(rows: Iterator[Any]) -> Iterator[Any]:
        for row in rows:
            if row.payload == b"2":
                eventually((Path(folder) / "go").exists, timeout=PATIENCE)
            yield row

    return wait


def first_rows(engine: Engine, sync_id: str) -> list[bytes]:
    found = by_id(engine, sync_id)
    with reading(engine) as connection:
        blocks, _ = send_snapshot.read_growing(connection, sync_id, found.build, RowPlace(), limit_bytes=1 << 20)
    return [payload for block in blocks for payload in block.unpack().payloads]


def test_the_first_part_is_there_before_the_second_has_ended(site: Engine, spark: Any, tmp_path: Path) -> None:
    def build(spark: Any, _context: SparkSnapshotContext) -> Any:
        rows = spark.range(0, 4, 1, 2).selectExpr("cast(cast(id as string) as binary) payload")
        return spark.createDataFrame(rows.rdd.mapPartitions(waiting(str(tmp_path))), "payload binary")

    (sync_id,) = request(site, "tokyo")
    with quick(site, SparkSnapshotProvider(lambda: spark, build)):
        eventually(lambda: by_id(site, sync_id).rows, timeout=PATIENCE)
        assert first_rows(site, sync_id) == [b"0", b"1"]
        assert by_id(site, sync_id).state == "building"
        (tmp_path / "go").touch()
        ready(site, sync_id, timeout=PATIENCE)
    assert [row.payload for row in rows_of(site, sync_id)] == [b"0", b"1", b"2", b"3"]
