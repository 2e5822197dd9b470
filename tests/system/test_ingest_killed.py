"""Servers are killed and connections are cut while producers send: nothing is stored twice, and nothing is lost."""

import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from sqlalchemy import Engine

from queues.clock import SYSTEM_CLOCK
from queues.send_log.opening import open_log
from queues.send_log.port import TickLimits
from queues.wire import ingest_pb2 as pb
from tests.conftest import NewSite
from tests.forked import Popen
from tests.system.raw_producer import RawProducer, request
from tests.system.world import World
from tests.waiting import eventually

#: Requests of each producer, and the number of producers.
EACH, PRODUCERS = 100, 4
#: The token and the place of a stored request. Requests that were stored at the same time may share the token.
Place = tuple[str, int]


@contextmanager
def serving(engine: Engine, socket: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server in a process of its own, which the block may kill."""
    url = engine.url.render_as_string(hide_password=False)
    file = socket.with_suffix(".toml")
    file.write_text(
        f'site_id = "paris"\ndatabase_url = "{url}"\nlisten = ["ipc://{socket}"]\ningest = true\n'
        'lease_seconds = 1\nidle_poll_seconds = 0.02\n[producers."*"]\n'
    )
    process = Popen([sys.executable, "-m", "lrq", "serve", "--config", str(file)], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def stored(engine: Engine) -> list[list[bytes]]:
    """Return the payloads in the log, by source transaction, in order."""
    log, after = open_log(engine), 0
    groups: dict[tuple[int, int | None], list[bytes]] = {}
    while ticks := log.ticks_after(after, TickLimits()):
        for piece in log.read_all(ticks, TickLimits()):
            for entry in piece:
                groups.setdefault((entry.row.transaction, entry.row.request), []).append(bytes(entry.row.payload))
        after = ticks[-1].end_seq
    return list(groups.values())


def produce(endpoint: str, producer: str, chance: random.Random, answered: Callable[[], None]) -> dict[int, Place]:
    """Send all requests in order and repeat them from the first unanswered one; return their tokens and places."""
    places: dict[int, Place] = {}
    known = 0
    while known < EACH:
        upto = min(EACH, known + chance.randrange(1, 20))
        try:
            with RawProducer(endpoint) as connection:
                name = producer.encode()
                wanted = range(known + 1, upto + 1)
                sent = [request(number, b"%s %d" % (name, number), producer=producer) for number in wanted]
                for reply in connection.stream(iter(sent), timeout=20):
                    if reply.HasField("refusal"):
                        assert reply.refusal.kind in (pb.ProduceRefusal.TRANSIENT, pb.ProduceRefusal.NOT_LEADER), reply
                        break
                    assert reply.sequence == known + 1
                    if reply.token:
                        places[reply.sequence] = reply.token, reply.position.seq
                    known = reply.sequence
                    answered()
                    if chance.random() < 0.02:
                        break  # the connection is cut, and the other replies are lost
        except grpc.RpcError:
            continue
    return places


def check(engine: Engine, places: list[dict[int, Place]]) -> None:
    eventually(lambda: sum(map(len, stored(engine))) >= EACH * PRODUCERS, timeout=90)
    found = stored(engine)
    assert all(len(transaction) == 1 for transaction in found)
    for number in range(PRODUCERS):
        mine = [payload for (payload,) in found if payload.startswith(b"p%d " % number)]
        assert mine == [b"p%d %d" % (number, each) for each in range(1, EACH + 1)]
    assert len({place for each in places for place in each.values()}) == sum(map(len, places))


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(300)
def test_a_server_that_is_killed_again_and_again_stores_each_request_once(
    new_site: NewSite, tmp_path: Path, chance: random.Random
) -> None:
    site = new_site("paris")
    socket = tmp_path / "s"
    progress, done = threading.Event(), threading.Event()

    def kill() -> int:
        kills = 0
        while not done.is_set():
            with serving(site, socket) as process:
                progress.clear()
                eventually(lambda: progress.is_set() or done.is_set(), timeout=60)
                SYSTEM_CLOCK.wait(done, chance.uniform(0, 0.3))
                if done.is_set():
                    return kills
                if kills < 3:
                    process.kill()
                    kills += 1
                else:
                    done.wait()
        return kills

    with ThreadPoolExecutor(PRODUCERS + 1) as pool:
        killer = pool.submit(kill)
        seeds = [random.Random(chance.random()) for _ in range(PRODUCERS)]
        try:
            made = [pool.submit(produce, f"ipc://{socket}", f"p{n}", seeds[n], progress.set) for n in range(PRODUCERS)]
            places = [each.result() for each in made]
            with_server = serving(site, tmp_path / "t")
        finally:
            done.set()
        assert killer.result() > 0
        with with_server:
            check(site, places)


@pytest.mark.long
def test_connections_that_are_cut_before_the_reply_store_each_request_once(world: World, chance: random.Random) -> None:
    paris = world.server("paris", ingest=True, producers={"*": {}})
    seeds = [random.Random(chance.random()) for _ in range(PRODUCERS)]
    with ThreadPoolExecutor(PRODUCERS) as pool:
        made = [
            pool.submit(produce, paris.endpoints[0], f"p{number}", seeds[number], lambda: None)
            for number in range(PRODUCERS)
        ]
        places = [each.result() for each in made]
    check(world.site("paris"), places)
