"""64 producers, one message a request, against applications that transmit; nothing is sent on.

The producers send their waiting requests together, as `lr_client.producer` does, or each in a message of its own.
"""

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Final

from sqlalchemy import Engine

import queues
from benchmarks import cpu, echo
from benchmarks.bench import Bench
from benchmarks.contenders.lrq_servers import ServerProcess
from benchmarks.echo import EchoProcess
from benchmarks.issue_bars import INGEST_FLOORS, TOGETHER
from benchmarks.producers import CLIENT, METHOD, TO, Load, generate
from benchmarks.workload import PAYLOAD_BYTES
from lr_client import LRMessageWithDestinations, RoutingQueueSenderClient
from queues.clock import SYSTEM_CLOCK

NAME: Final = "ingest"
UNIT: Final = "messages/s"
SQLITE: Final = "SQLite"
POSTGRESQL: Final = "PostgreSQL"
PRODUCERS: Final = 64
#: The messages of one transaction of `transmit` in bulk.
BULK: Final = 1_000
#: The most requests of a producer that are without an answer.
WINDOW: Final = 256

Numbers = tuple[str, dict[str, float]]


def measure(bench: Bench) -> None:
    """Measure each way on each database."""
    for _, (database, way) in bench.rounds(
        [
            (SQLITE, _one_by_one),
            (POSTGRESQL, _in_bulk),
            (SQLITE, _ingest),
            (POSTGRESQL, _ingest),
            (SQLITE, _ingest_singly),
            (POSTGRESQL, _ingest_singly),
            (SQLITE, _echo),
            (POSTGRESQL, _echo),
        ]
    ):
        with bench.tried(f"{way.__name__} on {database}"), _site(bench, database) as (engine, url):
            name, numbers = way(bench, engine, url)
            bench.book.add(NAME, database, name, **numbers)


@contextmanager
def _site(bench: Bench, database: str) -> Iterator[tuple[Engine, str]]:
    folder, cluster = bench.place.folder / "ingest", bench.place.cluster
    folder.mkdir()
    if database == POSTGRESQL:
        cluster.create("ingest")
    url = cluster.url("ingest") if database == POSTGRESQL else f"sqlite:///{folder / 'site.db'}"
    engine = queues.create_engine(url)
    try:
        queues.initialize(engine, site_id="source")
        yield engine, url
    finally:
        engine.dispose()
        shutil.rmtree(folder)
        if database == POSTGRESQL:
            cluster.drop("ingest")


def _one_by_one(bench: Bench, engine: Engine, _url: str) -> Numbers:
    return "one commit a message", {UNIT: _transmit(engine, bench.pick(300, 1_000), 1)}


def _in_bulk(bench: Bench, engine: Engine, _url: str) -> Numbers:
    return "transmit in bulk", {UNIT: _transmit(engine, bench.pick(20_000, 100_000), BULK)}


def _transmit(engine: Engine, messages: int, at_once: int) -> float:
    client = RoutingQueueSenderClient(CLIENT)
    bulk = [LRMessageWithDestinations(_payload(), TO) for _ in range(at_once)]
    began = SYSTEM_CLOCK.monotonic()
    for _ in range(messages // at_once):
        with engine.begin() as connection:
            client.transmit_log_entry_messages(connection, bulk)
    return messages / (SYSTEM_CLOCK.monotonic() - began)


def _ingest(bench: Bench, _engine: Engine, url: str) -> Numbers:
    return _served(bench, url, f"lrq ingest, {TOGETHER} requests a message", bench.pick(640, 3_200), TOGETHER)


def _ingest_singly(bench: Bench, _engine: Engine, url: str) -> Numbers:
    return _served(bench, url, INGEST_FLOORS[0], bench.pick(64, 320), 1)


def _served(bench: Bench, url: str, name: str, each: int, together: int) -> Numbers:
    settings = {
        "site_id": "source", "database_url": url, "listen": ["tcp://127.0.0.1:0"], "ingest": True,
        "producers": {"*": {}}, "metrics": None,
    }  # fmt: skip
    server = ServerProcess(settings)
    database = None if url.startswith("sqlite") else bench.place.cluster.pid
    address = server.endpoints[0].removeprefix("tcp://")
    try:
        return _loaded(name, Load(address, METHOD, PRODUCERS, each, together, WINDOW), server.pid, database)
    finally:
        server.stop()


def _echo(bench: Bench, _engine: Engine, _url: str) -> Numbers:
    server = EchoProcess()
    load = Load(server.address, echo.METHOD, PRODUCERS, bench.pick(64, 320), 1, WINDOW)
    try:
        return _loaded(INGEST_FLOORS[1], load, server.pid, None)
    finally:
        server.stop()


def _loaded(name: str, load: Load, server: int, database: int | None) -> Numbers:
    """Carry out *load* from a process of its own; return the rate, and each side's CPU for a message."""
    sides = {"server": server} | ({"database": database} if database else {})
    with get_context("spawn").Pool(1) as pool:
        before = {side: cpu.used(pid) for side, pid in sides.items()}
        used = pool.apply(generate, (load,))
        after = {side: cpu.used(pid) for side, pid in sides.items()}
    messages = load.producers * load.requests
    spent = {side: after[side] - before[side] for side in sides} | {"generator": used.cpu}
    costs = {f"CPU us a message of the {side}": 1e6 * seconds / messages for side, seconds in spent.items()}
    return name, {UNIT: messages / used.seconds} | costs


def _payload() -> bytes:
    return random.randbytes(PAYLOAD_BYTES)
