"""Producers against the real server: kills, restarts, many at once, TLS, and entries that arrive at a sink once."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from lr_client import wait_applied
from lr_client.producer import AsyncProducer, Produced, Producer
from queues import errors
from queues.produce_envelope import LARGE_BYTES
from tests.certificates import issued
from tests.lrq.cli.command import served
from tests.system.raw_producer import RawProducer, request
from tests.system.world import World
from tests.waiting import eventually

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
on_sqlite = pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)


def stored(world: World) -> list[bytes]:
    rows = world.execute("paris", "SELECT payload FROM lrq_log_entries_0 ORDER BY id")
    return [bytes(row.payload) for row in rows]


def open_to_all(world: World, **options: Any) -> str:
    """Start paris with ingest for all producers; return its endpoint."""
    return world.server("paris", ingest=True, producers={"*": {}}, **options).endpoints[0]


def one(payload: bytes, *to: str) -> list[tuple[bytes, list[str]]]:
    return [(payload, list(to or ("tokyo",)))]


def test_a_late_request_of_an_ended_process_is_told_to_the_next_one(world: World) -> None:
    endpoint = open_to_all(world)
    late = request(1, b"late", producer="meter")
    late.process, late.first_sequence = 77, 1
    with Producer(endpoint, client="policy", producer="meter") as producer, RawProducer(endpoint) as ended:
        assert producer.last_sequence() == 0
        assert ended.send([late])[0].sequence == 1
        futures = [producer.submit(one(b"%d" % number)) for number in range(3)]
        for future in futures:
            with pytest.raises(errors.ProducerTakenError, match="another process"):
                future.result(20)
    with Producer(endpoint, client="policy", producer="meter") as producer:
        assert producer.last_sequence() == 1
        assert producer.send(one(b"next")).seq == 2


def test_messages_of_a_producer_arrive_at_the_sink_once_and_in_order(world: World) -> None:
    recorder = world.subscribe("tokyo")
    world.server("tokyo", listen=[])
    endpoint = open_to_all(world, peers={"tokyo": "local:tokyo"}, initial_sync="log")
    with Producer(endpoint, client="policy", producer="meter") as producer:
        first = producer.send([(b"1", ["tokyo"]), (b"2", ["tokyo"])])
        futures = [producer.submit(one(b"%d" % number)) for number in range(3, 100)]
        last: Produced = [future.result(20) for future in futures][-1]
        producer.send(one(b"100"))
        wait_applied(world.site("tokyo"), producer.last_token, 20)
    assert recorder.log("paris") == [b"%d" % number for number in range(1, 101)]
    assert (first.branch, first.seq, last.position.seq) == (last.position.branch, 2, 99)


def test_64_producers_in_parallel_are_each_stored_once_and_in_order(world: World) -> None:
    endpoint = open_to_all(world)

    def produce(number: int) -> None:
        with Producer(endpoint, client="policy", producer=f"meter-{number}") as producer:
            for count in range(8):
                producer.send(one(b"%d/%d" % (number, count)), timeout=60)

    with ThreadPoolExecutor(64) as threads:
        for done in [threads.submit(produce, number) for number in range(64)]:
            done.result(100)
    found = stored(world)
    assert len(found) == 64 * 8
    for number in range(64):
        mine = [payload for payload in found if payload.startswith(b"%d/" % number)]
        assert mine == [b"%d/%d" % (number, count) for count in range(8)]


def test_a_cancelled_call_leaves_a_request_that_the_next_call_repeats_first(world: World) -> None:
    endpoint = open_to_all(world)

    async def produce() -> None:
        async with AsyncProducer(endpoint, client="policy", producer="meter") as producer:
            await producer.send(one(b"1"))
            for number in range(2, 30):
                call = asyncio.create_task(producer.send(one(b"%d" % number)))
                for _ in range(number % 5):
                    await asyncio.sleep(0)
                call.cancel()
                await asyncio.wait([call])
            await producer.send(one(b"30"))
            assert await producer.last_sequence() >= 2

    asyncio.run(produce())
    found = [int(payload) for payload in stored(world)]
    assert found == sorted({*found})
    assert found[0] == 1
    assert found[-1] == 30


def test_a_large_request_arrives_where_the_server_ends_each_quiet_stream_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lr_server.ingest.servicer.CALM", 0)
    monkeypatch.setattr("lr_server.ingest.stream.QUIET", 0.0)
    endpoint, payload = open_to_all(world), bytes(LARGE_BYTES)

    async def produce() -> None:
        async with AsyncProducer(endpoint, client="policy", producer="meter") as producer:
            await producer.send(one(payload), timeout=20)

    asyncio.run(produce())
    assert stored(world) == [payload]


def test_idle_producers_lose_nothing_when_the_server_ends_their_streams(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lr_server.ingest.servicer.CALM", 0)
    endpoint = open_to_all(world)
    with Producer(endpoint, client="policy", producer="meter") as producer:
        for number in range(3):
            producer.send(one(b"%d" % number))
            eventually(lambda: producer._call is None)
    assert stored(world) == [b"0", b"1", b"2"]


def test_refusals_of_the_server_are_errors_and_nothing_is_stored(world: World) -> None:
    rules = {"meter": {"clients": ["policy", "other"], "destinations": ["tokyo"]}, "any*": {}}
    server = world.server("paris", ingest=True, producers=rules, clients=["policy"], max_payload_bytes=1000)
    endpoint = server.endpoints[0]
    with Producer(endpoint, client="policy", producer="meter") as producer:
        with pytest.raises(errors.ConfigurationError, match="may not send to 'lima'"):
            producer.send(one(b"1", "lima"))
        with pytest.raises(errors.UsageError, match="limit is 1000"):
            producer.send(one(bytes(1001)))
        with pytest.raises(errors.UsageError, match="nothing was stored"):
            producer.send(one(bytes(14_000_000), "tokyo"))
    with (
        Producer(endpoint, client="other", producer="meter") as producer,
        pytest.raises(errors.ConfigurationError, match="no client 'other'"),
    ):
        producer.send(one(b"1"))
    with (
        Producer(endpoint, client="policy", producer="stranger") as producer,
        pytest.raises(errors.ConfigurationError, match="no rule in `producers` fits 'stranger'"),
    ):
        producer.send(one(b"1"))
    assert stored(world) == []


def test_a_server_without_ingest_is_named_in_the_error(world: World) -> None:
    endpoint = world.server("paris").endpoints[0]
    with (
        Producer(endpoint, client="policy", producer="meter") as producer,
        pytest.raises(errors.PeerUnreachableError, match="set `ingest = true` there"),
    ):
        producer.send(one(b"1"), timeout=2.0)


@on_sqlite
@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_certificate_names_the_producer(world: World, tmp_path: Path, kind: str) -> None:
    authority = trustme.CA()
    for name in ("site", "meter"):
        (tmp_path / name).mkdir()
    site = issued(authority, tmp_path / "site")
    mine = issued(authority, tmp_path / "meter", "127.0.0.1", common_name="meter")
    files = {"certificate": site.certificate, "key": site.key, "authority": site.authority}
    endpoint = open_to_all(world, listen=["tls://127.0.0.1:0"], **{f"tls_{name}": file for name, file in files.items()})
    shown: dict[str, Any] = {"tls_certificate": mine.certificate, "tls_key": mine.key, "tls_authority": mine.authority}

    async def produce(name: str) -> None:
        async with AsyncProducer(endpoint, client="policy", producer=name, **shown) as producer:
            await producer.send(one(name.encode()))

    def send(name: str) -> None:
        if kind == "asyncio":
            asyncio.run(produce(name))
            return
        with Producer(endpoint, client="policy", producer=name, **shown) as producer:
            producer.send(one(name.encode()))

    send("meter")
    with pytest.raises(errors.ConfigurationError, match="not producer 'other'"):
        send("other")
    assert stored(world) == [b"meter"]


@contextmanager
def socket_folder() -> Iterator[Path]:
    """Give a folder whose path is short enough for a Unix socket."""
    with tempfile.TemporaryDirectory(prefix="lrq") as folder:
        yield Path(folder)


@pytest.mark.processes
@pytest.mark.timeout(240)
def test_a_server_killed_at_random_moments_stores_each_request_once(
    world: World, tmp_path: Path, chance: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LRQ_INGEST", "true")
    monkeypatch.setenv("LRQ_PRODUCERS", '{"*": {}}')
    url = world.site("paris").url.render_as_string(hide_password=False)
    done = threading.Event()
    with socket_folder() as folder, ThreadPoolExecutor(1) as threads:
        endpoint = f"ipc://{folder}/paris"
        arguments = ("--site", "paris", "--database", url, "--listen", endpoint, "--log-level", "error")

        def produce() -> list[int]:
            numbers = []
            with Producer(endpoint, client="policy", producer="meter") as producer:
                while not done.is_set():
                    futures = [producer.submit(one(b"%d" % (len(numbers) + each)), 60) for each in range(20)]
                    numbers += [future.result(60).sequence for future in futures]
            return numbers

        producing = None
        for number in range(4):
            with served(*arguments, folder=tmp_path / str(number)) as server:
                producing = producing or threads.submit(produce)
                before = len(stored(world))
                eventually(lambda before=before: len(stored(world)) > before + chance.randrange(60), timeout=60)
                if number == 3:
                    done.set()
                    numbers = producing.result(60)
                server.stop(signal.SIGKILL)
    assert numbers == [*range(1, len(numbers) + 1)]
    assert stored(world) == [b"%d" % number for number in range(len(numbers))]


@on_sqlite
@pytest.mark.processes
def test_a_new_process_with_the_name_goes_on_after_the_last_number(world: World, tmp_path: Path) -> None:
    endpoint = open_to_all(world)
    code = (
        "import sys, os; from lr_client.producer import Producer\n"
        "producer = Producer(sys.argv[1], client='policy', producer='meter')\n"
        "first = producer.last_sequence() + 1\n"
        "for number in range(first, first + 3): producer.send([(b'%d' % number, ['tokyo'])])\n"
        "print(producer.last_sequence(), flush=True); os.kill(os.getpid(), 9)\n"
    )
    for expected in (3, 6, 9):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", code, endpoint], env=environment, capture_output=True, timeout=60, check=False
        )
        assert (done.returncode, int(done.stdout)) == (-signal.SIGKILL, expected), done.stderr
    assert stored(world) == [b"%d" % number for number in range(1, 10)]


@on_sqlite
def test_of_two_servers_of_a_site_either_takes_the_requests_of_a_producer(world: World) -> None:
    endpoints = [open_to_all(world) for _ in range(2)]
    with Producer(",".join(reversed(endpoints)), client="policy", producer="meter") as producer:
        for number in range(5):
            producer.send(one(b"%d" % number), timeout=20)
        world.servers[0].stop()
        for number in range(5, 10):
            producer.send(one(b"%d" % number), timeout=60)
    assert stored(world) == [b"%d" % number for number in range(10)]
