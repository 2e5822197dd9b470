"""Five programs write into one database beside each other: each committed change arrives once, and no other does."""

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import lrq
from lr_client import subscribe
from queues.wire.entry_pb2 import RoutingTableEntryMsg
from tests.examples.test_fastapi import web as fastapi_web
from tests.lrq.contrib.django.conftest import NewProject
from tests.lrq.contrib.django.project import ROOT, Project
from tests.lrq.contrib.django.test_shop import post, servers
from tests.lrq.contrib.django.test_shop import web as django_web
from tests.system.test_transmit_from_sql import psql, run
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(480)]

QUANTITIES = [1, 200, 2, 101, 3] * 3
#: Three transactions of psql: one is rolled back, one is a statement alone.
SCRIPT = """
BEGIN; SELECT lrq_transmit('orders', '{{"psql": "kept {0}"}}', ARRAY['office']); COMMIT;
BEGIN; SELECT lrq_transmit('orders', '{{"psql": "lost {0}"}}', ARRAY['office']); ROLLBACK;
SELECT lrq_transmit('orders', '{{"psql": "alone {0}"}}', ARRAY['office']);
"""
FOLLOWED = """
CREATE TABLE moves (id int PRIMARY KEY);
SELECT lrq_follow('public.moves', client => 'orders', destinations => ARRAY['office']);
"""
ROWS = "INSERT INTO moves VALUES ({0}); BEGIN; INSERT INTO moves VALUES (-{0}); ROLLBACK;"


def origin(payload: bytes) -> str:
    """Name the program that wrote *payload*."""
    said = json.loads(payload)
    if "psql" in said:
        return str(said["psql"])
    if "table" in said:
        return f"trigger {said['row']['id']}"
    if "id" in said:
        return f"node {said['id']}"
    return f"{'django' if 'placed_at' in said else 'fastapi'} {said['order']}"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("node and npm are not both installed")
    folder = shutil.copytree(ROOT / "examples" / "node", tmp_path / "node")
    command = ["npm", "install", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        pytest.skip(f"npm cannot install the package pg: {done.stderr[-300:]}")
    return folder


@pytest.fixture
def arrived(new_project: NewProject) -> Iterator[tuple[Project, list[str]]]:
    """Give the project at the office, and the origins of the entries that a listener there gets."""
    office = new_project("office")
    found: list[str] = []

    @lrq.listener("orders")
    def apply(_session: object, _source: str, entries: list[RoutingTableEntryMsg]) -> None:
        found.extend(origin(entry.opaque_payload) for entry in entries)

    with subscribe(office.engine, apply, poll_interval=0.05):
        yield office, found


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_programs_in_five_languages_and_frameworks_transmit_beside_each_other(
    new_project: NewProject, arrived: tuple[Project, list[str]], node: Path
):
    north, (office, found) = new_project("north"), arrived
    url = north.engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    shell = [psql(), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url]
    run(shell, FOLLOWED)
    database = north.engine.url.set(drivername="postgresql+asyncpg")
    with servers(north, office), django_web(north) as django, fastapi_web(database) as fastapi:

        def ask_fastapi(quantity: int) -> int:
            return int(fastapi.post("/orders", json={"item": "bread", "quantity": quantity}).status_code)

        programs: list[Callable[[], object]] = [
            lambda: [post(django, quantity) for quantity in QUANTITIES],
            lambda: [ask_fastapi(quantity) for quantity in QUANTITIES],
            lambda: [run(shell, SCRIPT.format(number)) for number in range(5)],
            lambda: [run(shell, ROWS.format(number)) for number in range(1, 6)],
            lambda: run(["node", "transmit.js"], cwd=node, env={**os.environ, "DATABASE_URL": url, "SITES": "office"}),
        ]
        with ThreadPoolExecutor(len(programs)) as pool:
            done = list(pool.map(lambda program: program(), programs))
        assert done[0] == done[1] == [201 if quantity <= 100 else 422 for quantity in QUANTITIES]
        expected = {
            *(f"django {key}" for key in north.sql("SELECT id FROM shop_order")),
            *(f"fastapi {key}" for key in north.sql("SELECT id FROM orders")),
            *(f"{kind} {number}" for kind in ("kept", "alone") for number in range(5)),
            *(f"trigger {number}" for number in range(1, 6)),
            "node 1", "node 3",
        }  # fmt: skip
        assert len(expected) == 9 + 9 + 10 + 5 + 2
        eventually(lambda: len(found) >= len(expected), timeout=60)
    assert Counter(found) == Counter(expected)
    sent = found.index
    assert all(sent(f"kept {number}") < sent(f"alone {number}") < sent("alone 4") + 1 for number in range(5))
