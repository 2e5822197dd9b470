"""64 producers and three servers that keep one log: a ring of SQLite files, beside others.

Each message is on two disks before its answer. In other rows it is on all three disks, or on that of a single server
without a ring. All servers share one machine and its disk. The others are replicated JetStream, and one server of lrq
on PostgreSQL with two standbys.
"""

import random
import shutil
from collections.abc import Sequence
from contextlib import ExitStack, closing
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import queues
from benchmarks.bench import Bench
from benchmarks.contenders.brokered import free_port
from benchmarks.contenders.lrq_servers import ServerProcess
from benchmarks.contenders.replicated_jetstream import publish, replicated
from benchmarks.issue_bars import (
    NO_RING,
    REPLICATED_JETSTREAM,
    RING,
    RING_OF_THREE_DISKS,
    RING_OF_TWO,
    RINGS,
    TOGETHER,
)
from benchmarks.peers import no_jetstream
from benchmarks.producers import METHOD, Load, generate, generate_together
from benchmarks.standbys import any_one
from benchmarks.workload import PAYLOAD_BYTES
from lr_server.protocol.agreement.generations import RANKS
from lr_server.ring.codec import RingAddress
from lr_server.ring.founding import found, founding_key, record_of
from lr_server.ring.look import look_at
from lr_server.ring.seat import TOKEN
from lr_server.ring.store import TokenStore
from lr_server.ring.witness import StoreWitness
from queues.clock import poll

NAME: Final = "ring"
UNIT: Final = "messages/s"
SETTING: Final = "64 producers"
PRODUCERS: Final = 64
#: The most requests of a producer that are without an answer.
WINDOW: Final = 256
#: The seconds until a member leads, at most.
_PATIENCE: Final = 60.0


def measure(bench: Bench) -> None:
    """Measure answers after no, one and both followers, a lost follower, three rings, and the others."""
    ways = [
        (NO_RING, _no_ring),
        (RING, _ring),
        (RING_OF_THREE_DISKS, _ring_of_three_disks),
        (RING_OF_TWO, _ring_of_two),
        (RINGS, _rings),
        ("lrq ingest, PostgreSQL, ANY 1 of 2 standbys", _postgresql),
    ]
    if reason := no_jetstream():
        bench.book.lacks(REPLICATED_JETSTREAM, reason)
    else:
        ways.append((REPLICATED_JETSTREAM, _jetstream))
    for _, (name, way) in bench.rounds(ways):
        folder = bench.place.folder / "ring"
        folder.mkdir()
        try:
            with bench.tried(f"{name} with {SETTING}"):
                bench.book.add(NAME, SETTING, name, **{UNIT: way(bench, folder)})
        finally:
            shutil.rmtree(folder)


def _ring(bench: Bench, folder: Path) -> float:
    return _loaded_ring(bench, folder, lost=())


def _ring_of_three_disks(bench: Bench, folder: Path) -> float:
    return _loaded_ring(bench, folder, lost=(), acknowledging=2)


def _ring_of_two(bench: Bench, folder: Path) -> float:
    return _loaded_ring(bench, folder, lost=RANKS[-1:])


def _loaded_ring(bench: Bench, folder: Path, lost: Sequence[int], acknowledging: int = 1) -> float:
    """Return the rate of a ring that has lost the members *lost* before the load.

    *acknowledging* followers have each message before its answer.
    """
    each = bench.pick(640, 3_200)
    with ExitStack() as stack:
        founded = _founded(folder, acknowledging)
        servers = [stack.enter_context(closing(_Server(settings))) for settings in founded]
        load = Load(servers[0].address, METHOD, PRODUCERS, each, TOGETHER, WINDOW)
        _await_leader(f"tcp://{servers[0].address}")
        for rank in lost:
            servers[rank].close()
        with get_context("spawn").Pool(1) as pool:
            return PRODUCERS * each / pool.apply(generate, (load,)).seconds


def _rings(bench: Bench, folder: Path) -> float:
    """Return the rate of three rings, each with its own servers and a third of the producers."""
    each, count = bench.pick(640, 3_200), len(RANKS)
    with ExitStack() as stack:
        loads = []
        for number in range(count):
            folder_of = folder / str(number)
            folder_of.mkdir()
            servers = [stack.enter_context(closing(_Server(settings))) for settings in _founded(folder_of)]
            _await_leader(f"tcp://{servers[0].address}")
            share = PRODUCERS // count + (number < PRODUCERS % count)
            loads.append(Load(servers[0].address, METHOD, share, each, TOGETHER, WINDOW))
        with get_context("spawn").Pool(1) as pool:
            return PRODUCERS * each / pool.apply(generate_together, (loads,)).seconds


def _no_ring(bench: Bench, folder: Path) -> float:
    """Return the rate of one server on SQLite: no follower has a message before its answer."""
    each, url = bench.pick(640, 3_200), f"sqlite:///{folder / 'source.db'}"
    with ExitStack() as stack:
        engine = queues.create_engine(url)
        queues.initialize(engine, site_id="source")
        engine.dispose()
        served = {"site_id": "source", "database_url": url, "listen": ["tcp://127.0.0.1:0"]}
        server = ServerProcess(served | {"ingest": True, "producers": {"*": {}}, "metrics": None})
        stack.callback(server.stop)
        load = Load(server.endpoints[0].removeprefix("tcp://"), METHOD, PRODUCERS, each, TOGETHER, WINDOW)
        with get_context("spawn").Pool(1) as pool:
            return PRODUCERS * each / pool.apply(generate, (load,)).seconds


def _postgresql(bench: Bench, _folder: Path) -> float:
    each, cluster = bench.pick(640, 3_200), bench.place.cluster
    with ExitStack() as stack:
        cluster.create("ring")
        stack.callback(cluster.drop, "ring")
        engine = queues.create_engine(cluster.url("ring"))
        queues.initialize(engine, site_id="source")
        engine.dispose()
        stack.enter_context(any_one(cluster))
        served = {"site_id": "source", "database_url": cluster.url("ring"), "listen": ["tcp://127.0.0.1:0"]}
        server = ServerProcess(served | {"ingest": True, "producers": {"*": {}}, "metrics": None})
        stack.callback(server.stop)
        load = Load(server.endpoints[0].removeprefix("tcp://"), METHOD, PRODUCERS, each, TOGETHER, WINDOW)
        with get_context("spawn").Pool(1) as pool:
            return PRODUCERS * each / pool.apply(generate, (load,)).seconds


def _jetstream(bench: Bench, folder: Path) -> float:
    each, payload = bench.pick(160, 800), random.randbytes(PAYLOAD_BYTES)
    with replicated(folder) as address, get_context("spawn").Pool(1) as pool:
        pool.apply(publish, (address, PRODUCERS, 4, WINDOW, payload))
        return PRODUCERS * each / pool.apply(publish, (address, PRODUCERS, each, WINDOW, payload))


class _Server:
    """One server of the ring."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._process = ServerProcess(settings)
        self.address = str(settings["listen"][0]).removeprefix("tcp://")

    def close(self) -> None:
        """Stop the process."""
        self._process.stop()


def _founded(folder: Path, acknowledging: int = 1) -> list[dict[str, Any]]:
    """Return the settings of the three servers, whose stores are founded."""
    members, key = [f"tcp://127.0.0.1:{free_port()}" for _ in RANKS], founding_key()
    found_settings = []
    for rank in RANKS:
        url, witness = f"sqlite:///{folder / f'{rank}.db'}", folder / f"{rank}.witness"
        engine = queues.create_engine(url)
        queues.initialize(engine, site_id="source")
        with closing(TokenStore(engine, TOKEN, StoreWitness(witness))) as store:
            found(store, record_of(key, rank))
        engine.dispose()
        found_settings.append(
            {
                "site_id": "source",
                "database_url": url,
                "listen": [members[rank]],
                "ingest": True,
                "producers": {"*": {}},
                "ring": {
                    "members": members,
                    "rank": rank,
                    "witness": witness,
                    "acknowledging_followers": acknowledging,
                },
            }
        )
    return found_settings


def _await_leader(endpoint: str) -> None:
    """Wait until the member of rank 0 at *endpoint* leads, and both followers have its log."""
    address = RingAddress("source", TOKEN)

    def is_led() -> bool:
        state = look_at(address, endpoint, None)
        return state.leader == 0 and all(state.held[rank] == state.newest for rank in RANKS[1:])

    poll(is_led, bool, timeout=_PATIENCE, pause=0.1)
