"""The application dies in the middle of a snapshot."""

import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Engine

from queues import snapshots
from queues.transactions import writing
from tests.snapshot.providing import Provider, by_id, numbered, payloads_of, quick, ready, request, stored
from tests.waiting import eventually

pytestmark = pytest.mark.processes
_ENDLESS = Path(__file__).with_name("endless.py")


def test_a_killed_application_leaves_nothing_visible_and_another_starts_again(site: Engine, tmp_path: Path) -> None:
    (sync_id,) = request(site, "tokyo")
    url = site.url.render_as_string(hide_password=False)
    dead = subprocess.Popen([sys.executable, str(_ENDLESS), url, str(tmp_path)])
    try:
        eventually(lambda: stored(site, sync_id) >= 4_000)
    finally:
        dead.kill()
        dead.wait()
    assert by_id(site, sync_id).state == "building"
    with quick(site, Provider(numbered(3)), lease_seconds=1.0, scratch_folder=tmp_path):
        assert ready(site, sync_id).attempt == 2
    assert payloads_of(site, sync_id) == [b"row 0", b"row 1", b"row 2"]
    with writing(site) as connection:
        snapshots.collect_garbage(connection, limit_rows=10_000)
    assert stored(site) == 3
    assert list(tmp_path.glob("lrq-cut-*")) == []
