"""The application dies, or is paused, in the middle of a snapshot."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy import Engine, text

from lr_client.snapshot.requests import SnapshotContext
from queues import send_snapshot
from queues.database.transactions import writing
from tests.faults.standing_still import standing_still
from tests.forked import Popen
from tests.lr_client.snapshot.providing import Provider, by_id, numbered, payloads_of, quick, ready, request, stored
from tests.waiting import eventually

_HOUSE = Path(__file__).parents[3]
_LOCAL = [b"row 0", b"row 1", b"row 2"]


@contextmanager
def application(site: Engine, folder: Path, sync_id: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run an application until the middle of its snapshot; kill it at the end of the block."""
    url = site.url.render_as_string(hide_password=False)
    command = [sys.executable, "-m", "tests.lr_client.snapshot.application", url, str(folder)]
    process = Popen(command, cwd=_HOUSE, env={**os.environ, "PYTHONPATH": str(_HOUSE)})
    try:
        eventually(lambda: stored(site, sync_id) >= 4_000, timeout=60)
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.processes
def test_a_killed_application_publishes_no_row_and_another_builds_again(site: Engine, tmp_path: Path) -> None:
    (sync_id,) = request(site, "tokyo")
    with application(site, tmp_path, sync_id):
        pass
    assert by_id(site, sync_id).state == "building"
    with quick(site, Provider(numbered(3)), lease_seconds=1.0, scratch_folder=tmp_path):
        assert ready(site, sync_id).attempt == 2
    assert payloads_of(site, sync_id) == _LOCAL
    with writing(site) as connection:
        send_snapshot.collect_garbage(connection, limit_rows=10_000)
    assert stored(site) == len(_LOCAL)
    assert list(tmp_path.glob("lrq-cut-*")) == []


@pytest.mark.processes
def test_an_application_paused_for_too_long_publishes_no_row(site: Engine, tmp_path: Path) -> None:
    (sync_id,) = request(site, "tokyo")
    with application(site, tmp_path, sync_id) as process, quick(site, Provider(numbered(3)), lease_seconds=1.0):
        with standing_still(process.pid, site.url.render_as_string(hide_password=False)):
            ready(site, sync_id)
            (tmp_path / "go").touch()
        assert process.wait(60) == 0
    assert (tmp_path / "outcome").read_text() == "SnapshotCancelledError"
    assert payloads_of(site, sync_id) == _LOCAL


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_broken_connections_cost_at_most_the_attempt(site: Engine) -> None:
    app = sqlalchemy.create_engine(site.url, connect_args={"application_name": "app"})

    def payloads(context: SnapshotContext) -> Iterator[bytes]:
        for number in range(6_000):
            if number == 3_000 and context.attempt.claimed.number == 1:
                with site.connect() as connection:
                    connection.execute(_END_APPLICATION)
            yield b"row %d" % number

    (sync_id,) = request(site, "tokyo")
    with quick(app, Provider(payloads)):
        ready(site, sync_id)
    app.dispose()
    assert payloads_of(site, sync_id) == [b"row %d" % number for number in range(6_000)]


_END_APPLICATION = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'app'")
