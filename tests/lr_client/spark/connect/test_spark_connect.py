"""Snapshots and receive queues by Spark Connect: the application has no Java, and the server has the tasks."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from tests.lr_client.snapshot.providing import by_id, ready, request
from tests.lr_client.spark.connect import driver, reader
from tests.lr_client.spark.connect.conftest import Client
from tests.lr_client.spark.faults import readings
from tests.lr_client.spark.faults.readings import PATIENCE
from tests.lr_client.spark.sources.applying import streamed, told
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.processes, pytest.mark.timeout(600)]


@pytest.fixture
def source(site: Engine, client: Client) -> Engine:
    """A site with the table `readings` and an application that builds its snapshots."""
    readings.create(site)
    client(driver.__name__)
    return site


def test_a_snapshot_has_the_rows_of_the_table(source: Engine) -> None:
    (sync_id,) = request(source, "tokyo")
    assert ready(source, sync_id, timeout=PATIENCE).rows == readings.ROWS
    assert readings.published(source, sync_id) == readings.contents(source)


@pytest.mark.nightly
def test_a_failed_task_is_told_in_one_sentence(source: Engine) -> None:
    (sync_id,) = request(source, "oslo")
    told = eventually(lambda: by_id(source, sync_id).error, timeout=PATIENCE)
    assert told == "a row's `payload` is NULL: leave such rows out, or make it empty"


@pytest.mark.nightly
def test_a_cancelled_snapshot_leaves_its_tasks_to_the_next_one(source: Engine, tmp_path: Path) -> None:
    (first,) = request(source, "lima")
    eventually((tmp_path / "halted").exists, timeout=PATIENCE)
    eventually(lambda: "of 4 Spark tasks done" in by_id(source, first).progress, timeout=PATIENCE)
    (second,) = request(source, "lima")
    assert ready(source, second, timeout=PATIENCE).rows == readings.ROWS
    assert by_id(source, first).state == "cancelled"


@pytest.mark.nightly
def test_a_new_session_follows_one_that_the_server_has_ended(source: Engine) -> None:
    (first,) = request(source, "riga")
    assert "SESSION_CLOSED" in eventually(lambda: by_id(source, first).error, timeout=PATIENCE)
    (second,) = request(source, "tokyo")
    assert ready(source, second, timeout=PATIENCE).rows == readings.ROWS


def test_a_receive_queue_is_read_and_applied_once(site: Engine, client: Client, tmp_path: Path) -> None:
    streamed.create(site)
    arrivals = Arrivals(site)
    arrivals.snapshot("s", [b"row"], base=10)
    arrivals.tick([b"log1", b"log2"], [b"log3"])
    running = client(reader.__name__)
    assert running.wait(PATIENCE) == 0
    assert (tmp_path / "client.log").read_text().split()[-4:] == ["row", "log1", "log2", "log3"]
    assert told(site) == ["<start>", "row", "<complete>", "log1", "log2", "log3"]
