"""64 producers, one message a request, against applications that transmit; nothing is sent on."""

import random
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from threading import Barrier
from typing import Final

import grpc
from sqlalchemy import Engine

import queues
from benchmarks.bench import Bench
from benchmarks.contenders.lrq_servers import ServerProcess
from benchmarks.workload import PAYLOAD_BYTES
from lr_client import LRMessageWithDestinations, RoutingQueueSenderClient
from queues.clock import SYSTEM_CLOCK
from queues.wire import ingest_pb2 as pb
from queues.wire.ingest_pb2_grpc import IngestStub

NAME: Final = "ingest"
UNIT: Final = "messages/s"
SQLITE: Final = "SQLite"
POSTGRESQL: Final = "PostgreSQL"
PRODUCERS: Final = 64
#: The messages of one transaction of `transmit` in bulk.
BULK: Final = 1_000
_CLIENT: Final = "bench"
_TO: Final = ["sink"]


def measure(bench: Bench) -> None:
    """Measure each way on each database."""
    for _, (database, way) in bench.rounds(
        [(SQLITE, _one_by_one), (POSTGRESQL, _in_bulk), (SQLITE, _ingest), (POSTGRESQL, _ingest)]
    ):
        with bench.tried(f"{way.__name__} on {database}"), _site(bench, database) as (engine, url):
            name, number = way(bench, engine, url)
            bench.book.add(NAME, database, name, **{UNIT: number})


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


def _one_by_one(bench: Bench, engine: Engine, _url: str) -> tuple[str, float]:
    return "one commit a message", _transmit(engine, bench.pick(300, 1_000), 1)


def _in_bulk(bench: Bench, engine: Engine, _url: str) -> tuple[str, float]:
    return "transmit in bulk", _transmit(engine, bench.pick(20_000, 100_000), BULK)


def _transmit(engine: Engine, messages: int, at_once: int) -> float:
    client = RoutingQueueSenderClient(_CLIENT)
    bulk = [LRMessageWithDestinations(_payload(), _TO) for _ in range(at_once)]
    began = SYSTEM_CLOCK.monotonic()
    for _ in range(messages // at_once):
        with engine.begin() as connection:
            client.transmit_log_entry_messages(connection, bulk)
    return messages / (SYSTEM_CLOCK.monotonic() - began)


def _ingest(bench: Bench, _engine: Engine, url: str) -> tuple[str, float]:
    settings = {
        "site_id": "source", "database_url": url, "listen": ["tcp://127.0.0.1:0"], "ingest": True,
        "producers": {"*": {}}, "metrics": None,
    }  # fmt: skip
    each = bench.pick(200, 1_500)
    server = ServerProcess(settings)
    try:
        with get_context("spawn").Pool(1) as pool:
            seconds = pool.apply(produce, (server.endpoints[0].removeprefix("tcp://"), PRODUCERS, each))
    finally:
        server.stop()
    return "lrq ingest", PRODUCERS * each / seconds


def produce(address: str, producers: int, each: int) -> float:
    """Send *each* requests with one message from each of *producers*; return the seconds until all are answered."""
    start = Barrier(producers + 1)
    with ThreadPoolExecutor(producers) as pool:
        done = [pool.submit(_produce, address, f"producer{number}", each, start) for number in range(producers)]
        start.wait()
        began = SYSTEM_CLOCK.monotonic()
        for one in done:
            one.result()
        return SYSTEM_CLOCK.monotonic() - began


def _produce(address: str, producer: str, each: int, start: Barrier) -> None:
    payload = _payload()
    message = pb.ProducedMessage(payload=payload, destinations=_TO)
    requests = [
        pb.ProduceRequest(client=_CLIENT, producer=producer, sequence=number, messages=[message])
        for number in range(1, each + 1)
    ]
    with grpc.insecure_channel(address) as channel:
        grpc.channel_ready_future(channel).result(30)
        start.wait()
        replies = list(IngestStub(channel).Produce(iter(requests)))
    if len(replies) != each or replies[-1].HasField("refusal"):
        raise RuntimeError(f"{producer}: {len(replies)} of {each} requests were stored")


def _payload() -> bytes:
    return random.randbytes(PAYLOAD_BYTES)
