"""The example project at two sites: real requests, servers and workers, rollbacks in between, killed workers."""

import random
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lr_server import LogReplicationServer, Settings
from queues.browse.api import browse
from tests.lrq.contrib.django.conftest import NewProject
from tests.lrq.contrib.django.project import Project
from tests.system.world import QUICK
from tests.waiting import eventually

httpx = pytest.importorskip("httpx")

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(480)]


def settings(project: Project, **options: object) -> Settings:
    url = project.engine.url.render_as_string(hide_password=False)
    return Settings(site_id=project.environment["SHOP_SITE"], database_url=url, **QUICK, **options)


@contextmanager
def servers(north: Project, office: Project) -> Iterator[None]:
    """Run the servers of both sites."""
    with LogReplicationServer(settings(office, listen=["tcp://127.0.0.1:0"])) as sink:
        peers = {"office": sink.endpoints[0]}
        with LogReplicationServer(settings(north, listen=[], peers=peers, initial_sync="log")):
            yield


@contextmanager
def web(project: Project) -> "Iterator[httpx.Client]":
    """Run Django's web server and give a client for it."""
    project.environment["PYTHONUNBUFFERED"] = "1"
    # Requests are logged to stderr, whose pipe would fill.
    process = project.start("runserver", "127.0.0.1:0", "--noreload", stderr=subprocess.DEVNULL)
    try:
        line = next(line for line in process.stdout if "Starting development server" in line)
        with httpx.Client(base_url=re.search(r"http://\S+:\d+", line)[0], timeout=30) as client:
            yield client
    finally:
        process.kill()
        process.communicate()


def post(client: "httpx.Client", quantity: int) -> int:
    return client.post("/orders/", data={"item": "bread", "quantity": quantity}).status_code


def test_orders_reach_the_office_once_in_order_though_requests_fail_and_workers_die(
    new_project: NewProject, chance: random.Random
):
    north, office = new_project("north"), new_project("office")
    with servers(north, office), web(north) as client:
        for _ in range(3):
            worker = office.start("lrq_work", "shop.listeners:apply")
            before = len(arrived(office))
            assert [post(client, quantity) for quantity in (1, 200, 2, 101, 3)] == [201, 422, 201, 422, 201]
            some = before + chance.randint(0, 3)
            eventually(lambda some=some: len(arrived(office)) >= some)
            worker.kill()
            worker.communicate()
        placed = north.sql("SELECT id FROM shop_order ORDER BY id")
        last = office.start("lrq_work", "shop.listeners:apply")
        eventually(lambda: len(arrived(office)) >= len(placed))
        last.terminate()
        assert last.communicate(timeout=30)[1] == ""
    assert len(placed) == 9
    assert arrived(office) == placed
    assert office.manage("stock") == "bread: -18\n"


def arrived(office: Project) -> list[object]:
    return office.sql('SELECT "order" FROM shop_stockchange ORDER BY id')


def test_the_command_takes_an_order_and_a_refused_order_leaves_no_message(new_project: NewProject):
    north = new_project("north")
    assert north.manage("order", "bread", "2") == "order 1: 2 bread\n"
    done = north.outcome("order", "bread", "1000")
    assert (done.returncode, done.stderr) == (1, "CommandError: an order has at most 100 pieces\n")
    assert north.sql("SELECT quantity FROM shop_order") == [2]
    assert len(browse(north.engine, "LRQ_Send_LogEntries").entries) == 1
