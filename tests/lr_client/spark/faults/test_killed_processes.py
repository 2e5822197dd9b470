"""Drivers and executors of Spark that die in the middle of a snapshot."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from queues.errors import SnapshotCancelledError
from tests.lr_client.snapshot.providing import by_id, ready, request
from tests.lr_client.spark.faults import readings
from tests.lr_client.spark.faults.jvm import cluster, driver
from tests.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.processes, pytest.mark.timeout(900)]


@pytest.mark.nightly
def test_a_killed_executor_costs_only_its_tasks(site: Engine, tmp_path: Path) -> None:
    readings.create(site)
    wanted = readings.contents(site)
    (sync_id,) = request(site, "tokyo")
    with cluster(tmp_path) as machines, driver(machines.master, site, tmp_path):
        eventually(lambda: readings.halted(site, tries=2), timeout=readings.PATIENCE, interval=0.2)
        readings.change(site)
        machines.kill_an_executor()
        eventually(lambda: readings.halted(site, tries=3), timeout=readings.PATIENCE, interval=0.2)
        readings.go(tmp_path)
        assert ready(site, sync_id, timeout=readings.PATIENCE).attempt == 1
        assert readings.published(site, sync_id) == wanted
    assert readings.collect(site) == len(wanted)


def test_a_killed_driver_publishes_no_row_and_another_builds_again(site: Engine, tmp_path: Path) -> None:
    readings.create(site)
    (sync_id,) = request(site, "tokyo")
    with driver("local[2,2]", site, tmp_path, "first") as first:
        eventually(lambda: readings.halted(site, tries=2), timeout=readings.PATIENCE, interval=0.2)
        first.kill()
    readings.change(site)
    assert by_id(site, sync_id).state == "building"
    with pytest.raises(SnapshotCancelledError, match="is building, so none of its rows is to be sent"):
        readings.published(site, sync_id)
    readings.go(tmp_path)
    with driver("local[2,2]", site, tmp_path, "second"):
        assert ready(site, sync_id, timeout=readings.PATIENCE).attempt == 2
    assert readings.published(site, sync_id) == readings.contents(site)
    assert readings.collect(site) == len(readings.contents(site))
