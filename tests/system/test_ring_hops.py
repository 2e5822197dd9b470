"""The hops of a producer's request on a ring, counted by the servers: one at most, also while leaders disagree."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from discovery.server_status import IngestStatus
from queues.wire import ingest_pb2 as pb
from tests.conftest import NewSite
from tests.faults.cut_relay import CutRelay
from tests.system.raw_producer import RawProducer, request
from tests.system.ring_servers import RANKS, RingServers
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

#: The requests of each producer.
EACH = 20


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class CutRing:
    """A ring whose server of rank 0 reaches rank 2 by a relay; rank 2 believes its leader for ever."""

    def __init__(self, new_site: NewSite, folder: Path, stack: ExitStack) -> None:
        self.way = CutRelay(folder / "way", folder / "m2")
        stack.callback(self.way.close)
        self.ring = RingServers(new_site, folder, ring={"lease_seconds": 2.0, "stall_seconds": 3.0})
        stack.enter_context(closing(self.ring))
        self._change(0, members=[*self.ring.members[:2], self.way.endpoint])
        self._change(2, lease_seconds=3600.0)

    def _change(self, rank: int, **changes: object) -> None:
        before = self.ring.settings[rank]
        assert before.ring is not None
        self.ring.settings[rank] = before.model_copy(update={"ring": before.ring.model_copy(update=changes)})

    def leader_of(self, rank: int) -> int | None:
        """Return the rank that leads, as a server knows it."""
        status = self.ring.servers[rank].server_status().ring
        assert status is not None
        return status.leader

    def led_by(self, rank: int, *believers: int) -> None:
        """Wait until the server of *rank* alone works as the leader, and *believers* know that."""
        eventually(
            lambda: [each for each, server in self.ring.servers.items() if server.is_owner] == [rank], timeout=180
        )
        eventually(lambda: all(self.leader_of(each) == rank for each in believers), timeout=180)

    def counts(self) -> list[tuple[int, int]]:
        """Return the requests that came to each server, and those that went on from there."""
        found = [server.server_status().ingest for _, server in sorted(self.ring.servers.items())]
        return [(each.requests, each.forwarded) for each in found if isinstance(each, IngestStatus)]

    def send(self, rank: int, producer: str, count: int = EACH) -> list[pb.ProduceReply]:
        """Send the first *count* requests of a producer to one server, in one stream."""
        with RawProducer(self.ring.members[rank]) as to:
            return to.send([request(number, b"%d" % number, producer=producer) for number in range(1, count + 1)])


@pytest.fixture
def cut_ring(new_site: NewSite, tmp_path: Path) -> Iterator[CutRing]:
    with ExitStack() as stack:
        yield CutRing(new_site, tmp_path, stack)


def test_each_request_takes_one_hop_to_the_leader_and_none_at_the_leader(cut_ring: CutRing) -> None:
    cut_ring.ring.begin(*RANKS)
    cut_ring.led_by(0, 1, 2)
    for rank in RANKS:
        assert [reply.sequence for reply in cut_ring.send(rank, f"meter-{rank}")] == list(range(1, EACH + 1))
    eventually(lambda: cut_ring.counts() == [(3 * EACH, 0), (EACH, EACH), (EACH, EACH)])


def test_a_forwarded_request_is_refused_by_an_earlier_leader_and_goes_no_further(cut_ring: CutRing) -> None:
    cut_ring.way.cut("forward")
    cut_ring.ring.begin(1, 2)
    cut_ring.led_by(1, 2)
    cut_ring.ring.begin(0)
    cut_ring.led_by(0, 1)
    assert cut_ring.leader_of(2) == 1, "rank 2 has heard of the new leader"
    # A stream ends with its first refusal, so each request has a stream of its own.
    replies = [reply for _ in range(EACH) for reply in cut_ring.send(2, "meter", 1)]
    assert {reply.refusal.kind for reply in replies} == {pb.ProduceRefusal.NOT_LEADER}
    assert {reply.leader for reply in replies} == {cut_ring.ring.members[0]}
    eventually(lambda: cut_ring.counts() == [(0, 0), (EACH, 0), (EACH, EACH)])
    assert len(cut_ring.send(1, "meter")) == EACH
    eventually(lambda: cut_ring.counts() == [(EACH, 0), (2 * EACH, EACH), (EACH, EACH)])
    cut_ring.way.heal()
    cut_ring.led_by(0, 2)
    assert [reply.sequence for reply in cut_ring.send(2, "other")] == list(range(1, EACH + 1))
    eventually(lambda: cut_ring.counts() == [(2 * EACH, 0), (2 * EACH, EACH), (2 * EACH, 2 * EACH)])
