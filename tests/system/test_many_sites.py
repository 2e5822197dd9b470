"""A source with a thousand sites, of which some or all have entries."""

import threading
from collections import defaultdict
from collections.abc import Iterator

import psutil
import pytest

from benchmarks.contenders.null_sinks import NullSink
from lr_client import RoutingQueueSenderClient
from queues.blocks import decode_entries
from queues.names import SiteId
from queues.wire.replication_pb2 import Ack, Frame
from sink import local
from tests.system.world import World, in_log_sync, sessions_of
from tests.waiting import eventually

POLICY = RoutingQueueSenderClient("policy")
SITES = 1_000
#: More than the threads of a server without sessions.
FEW = 40
#: Sites whose entries share a transaction.
TOGETHER = 100
#: More than the memory of one session, in bytes; the sinks of this process are part of it.
A_SESSION = 512 * 1024


def session_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(("lrq-session-", "lrq-stream-"))]


def test_a_pair_of_a_client_and_a_peer_without_an_entry_costs_no_thread(world: World) -> None:
    (endpoint,) = world.server("tokyo").endpoints
    recorder = world.subscribe("tokyo")
    before = threading.active_count()
    others = {f"site{number}": "tcp://127.0.0.1:9" for number in range(SITES - 1)}
    paris = world.server(
        "paris", listen=[], peers={**others, "tokyo": endpoint}, clients=["policy", "billing"], initial_sync="log"
    )
    assert session_threads() == []
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"1"])
    in_log_sync(paris, "tokyo")
    assert sessions_of(paris).keys() == {"tokyo"}
    # A session in log sync has no work that waits, and so no thread of its own.
    eventually(lambda: session_threads() == ["lrq-stream-policy-tokyo"])
    assert threading.active_count() - before < FEW


class RecordingSink(NullSink):
    """Takes the entries of any number of sites into memory."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[str, list[bytes]] = defaultdict(list)

    def replicate(self, frames: Iterator[Frame]) -> Iterator[Ack]:
        return super().replicate(self._recorded(frames))

    def _recorded(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        for frame in frames:
            for group in frame.batch.groups:
                if group.HasField("block"):
                    self.entries[frame.session.sink] += decode_entries(group.block, 1_000_000).payloads
            yield frame


@pytest.fixture
def sink() -> Iterator[RecordingSink]:
    """Give the sink of all sites, in this process."""
    sink = RecordingSink()
    for name in names():
        local.offer(name, sink)  # type: ignore[arg-type]
    yield sink
    for name in names():
        local.withdraw(name, sink)  # type: ignore[arg-type]


def names() -> list[SiteId]:
    return [SiteId(f"site{number}") for number in range(SITES)]


@pytest.mark.nightly
@pytest.mark.long
@pytest.mark.timeout(300)
def test_each_of_a_thousand_sites_gets_exactly_its_entries_in_bounded_threads_and_memory(
    world: World, sink: RecordingSink
) -> None:
    sites = names()
    threads, memory = threading.active_count(), psutil.Process().memory_info().rss
    paris = world.server(
        "paris", listen=[], peers={site: f"local:{site}" for site in sites}, initial_sync="log",
        heartbeat_seconds=20.0, stall_seconds=60.0,
    )  # fmt: skip
    owed: dict[str, list[bytes]] = {site: [b"to all"] for site in sites}
    world.transmit("paris", b"to all", to=sites)
    eventually(lambda: sink.entries == owed, timeout=200, interval=0.2)
    for first in range(0, SITES, TOGETHER):
        with world.site("paris").begin() as connection:
            for site in sites[first : first + TOGETHER]:
                POLICY.transmit_log_entry_message(connection, site.encode(), [site])
                owed[site].append(site.encode())
    for number in range(50):
        world.transmit("paris", b"%d" % number, to=sites[:3])
        for site in sites[:3]:
            owed[site].append(b"%d" % number)
    eventually(lambda: sink.entries == owed, timeout=200, interval=0.2)
    # Within a process no thread of gRPC asks for the frames.
    eventually(lambda: threading.active_count() - threads <= SITES + FEW)
    assert psutil.Process().memory_info().rss - memory <= SITES * A_SESSION
    pool = paris._engine.pool
    assert pool.size() + pool.overflow() <= 13  # type: ignore[attr-defined]
