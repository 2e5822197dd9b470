"""The example with FastAPI in a real uvicorn: requests at once, rollbacks in between, real servers, each order once."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import URL, Engine, inspect, make_url, text

import queues
from discovery.status import read_status
from lr_server import LogReplicationServer, Settings
from queues.browse.api import Wanted, browse
from tests.system.world import QUICK
from tests.waiting import eventually

httpx = pytest.importorskip("httpx")
for _library in ("fastapi", "uvicorn"):
    pytest.importorskip(_library)

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(480)]
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "fastapi"
DRIVERS = [
    pytest.param("sqlite", "sqlite+aiosqlite", marks=pytest.mark.nightly),
    ("postgresql", "postgresql+asyncpg"),
    pytest.param("postgresql", "postgresql+psycopg", marks=pytest.mark.nightly),
]


@pytest.fixture
def north(new_database: Callable[[], str]) -> Iterator[Engine]:
    engine = queues.create_engine(new_database())
    yield engine
    engine.dispose()


def shown(url: URL) -> str:
    return url.render_as_string(hide_password=False)


@contextmanager
def running(*words: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """Run Python with *words* in the folder of the example during the block; stdout and stderr are one stream."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{EXAMPLE}", **variables}
    process = subprocess.Popen(
        [sys.executable, *words], cwd=EXAMPLE, env=environment, stdout=-1, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def web(url: URL) -> "Iterator[httpx.Client]":
    """Run uvicorn and give a client for it."""
    words = ("-m", "uvicorn", "app:app", "--port", "0", "--no-access-log")
    with running(*words, SHOP_DATABASE=shown(url)) as process:
        said = []
        for line in process.stdout:
            said.append(line)
            if "Uvicorn running on" in line:
                break
        else:
            pytest.fail("".join(said))
        with httpx.Client(base_url=re.search(r"http://\S+:\d+", line)[0], timeout=30) as client:
            yield client


@contextmanager
def servers(north: Engine, office: Engine) -> Iterator[None]:
    """Run the servers of both sites."""
    there = Settings(site_id="office", database_url=shown(office.url), listen=["tcp://127.0.0.1:0"], **QUICK)
    with LogReplicationServer(there) as sink:
        peers = {"office": sink.endpoints[0]}
        here = Settings(
            site_id="north", database_url=shown(north.url), listen=[], peers=peers, initial_sync="log", **QUICK
        )
        with LogReplicationServer(here):
            yield


@pytest.mark.parametrize(("dialect", "driver"), DRIVERS)
def test_each_order_reaches_the_office_once_and_refused_orders_never_do(
    north: Engine, new_database: Callable[[], str], driver: str
):
    office = queues.create_engine(new_database())

    def stock() -> int | None:
        with office.connect() as connection:
            return connection.execute(text("SELECT quantity FROM stock WHERE item = 'bread'")).scalar()

    def post(quantity: int) -> int:
        return client.post("/orders", json={"item": "bread", "quantity": quantity}).status_code

    quantities = [1, 101, 2, 500, 3, 4] * 4
    url = make_url(north.url).set(drivername=driver)
    with running("office.py", shown(office.url)), web(url) as client, ThreadPoolExecutor(4) as pool:
        eventually(lambda: inspect(office).has_table("stock"))
        with servers(north, office):
            answers = list(pool.map(post, quantities))
            eventually(lambda: stock() == -40)
            entries = browse(north, "LRQ_Send_LogEntries", Wanted(everything=True)).entries
            (queue,) = read_status(office).receive_queues
    assert answers == [201 if quantity <= 100 else 422 for quantity in quantities]
    assert len(entries) == queue.applied_total == 16
    with north.connect() as connection:
        assert connection.execute(text("SELECT count(*), sum(quantity) FROM orders")).one() == (16, 40)
    office.dispose()
