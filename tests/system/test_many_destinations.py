"""Three hundred destinations of one source: each gets every entry, with a bounded number of threads and connections."""

import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from benchmarks.contenders.null_sinks import endpoint, serve_null
from benchmarks.contenders.workers import Workers
from tests.system.world import World
from tests.waiting import eventually

DESTINATIONS = 300

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(500)]


@pytest.fixture
def endpoints() -> Iterator[list[str]]:
    """Give the endpoints of a process that acknowledges the entries of all sites and stores none."""
    workers = Workers()
    workers.start(serve_null, DESTINATIONS)
    yield workers.wait_ready()[0]
    workers.stop()


def kinds() -> Counter[str]:
    """Count the threads of this process by their names without numbers; those of gRPC have names by default."""
    names = (thread.name for thread in threading.enumerate())
    return Counter("grpc" if name.startswith("Thread-") else "-".join(name.split("-")[:2]) for name in names)


def test_no_limit_leaves_any_of_three_hundred_destinations_out(endpoints: list[str], world: World) -> None:
    peers = {f"site{number}": endpoint(endpoints, number) for number in range(DESTINATIONS)}
    before = kinds()
    paris = world.server("paris", listen=[], peers=peers, initial_sync="log", stall_seconds=60)
    pool = paris._engine.pool

    def acknowledged() -> int:
        ((count,),) = world.execute("paris", "SELECT count(*) FROM lrq_sessions WHERE acked_seq >= :seq", seq=number)
        return int(count)

    for number in range(1, 4):
        world.transmit("paris", b"%d" % number, to=list(peers))
        eventually(lambda: acknowledged() == DESTINATIONS, timeout=200, interval=0.2)
    eventually(lambda: not kinds()["lrq-session"])
    threads = kinds() - before
    print(dict(threads), f"connections {pool.size() + pool.overflow()}")  # type: ignore[attr-defined]
    assert threads["lrq-stream"] == DESTINATIONS
    assert threads["grpc"] <= DESTINATIONS + 20
    assert threads.total() <= 2 * DESTINATIONS + 60
    assert pool.size() + pool.overflow() <= 13  # type: ignore[attr-defined]
