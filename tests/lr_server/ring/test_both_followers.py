"""Requests on three files where both followers must acknowledge: outcomes, refusals, and repeated requests."""

import pytest

from lr_server.protocol.agreement.events import BeatDue, FollowerUnheard
from lr_server.protocol.agreement.generations import RANKS
from lr_server.protocol.agreement.roles import RingLimits
from lr_server.ring.request_store import RingStore
from queues.clock import now_us
from queues.errors import StoreUnavailableError
from queues.send_log.producers import Production, StoreOutcome
from tests.conftest import NewSite
from tests.lr_server.ring.edges import RingOfFiles
from tests.lr_server.ring.requests import FileMember, lead_without_rank_0, request, verdicts


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ring(new_site: NewSite) -> RingOfFiles:
    """Give three members; rank 0 leads."""
    made = RingOfFiles([new_site("paris") for _ in RANKS], RingLimits(acknowledging=2))
    made.settle()
    return made


def store(ring: RingOfFiles, *asked: Production, rank: int = 0) -> list[StoreOutcome]:
    return RingStore(ring.machines[rank].engine, FileMember(ring, rank)).store(asked, now_us())


def payloads(ring: RingOfFiles, rank: int) -> list[bytes]:
    return [row.payload for content in ring.machines[rank].kept() for row in content.rows]


def cut_off(ring: RingOfFiles, rank: int) -> None:
    for other in RANKS:
        ring.cuts |= {(rank, other), (other, rank)}


def test_an_answered_request_is_on_all_three_disks(ring: RingOfFiles):
    assert verdicts(store(ring, request(1), request(2))) == [("STORED", 1), ("STORED", 2)]
    assert [payloads(ring, rank) for rank in RANKS] == [[b"1", b"2"]] * 3


@pytest.mark.parametrize("rank", [1, 2])
def test_a_request_that_one_follower_lacks_is_released_and_not_answered(ring: RingOfFiles, rank: int):
    cut_off(ring, rank)
    (outcome,) = store(ring, request(1))
    assert outcome.verdict.name == "UNKNOWN"
    assert ring.released[-1].rows[0].payload == b"1"
    with pytest.raises(StoreUnavailableError, match="not on enough disks yet"):
        store(ring, request(1))
    ring.post(0, FollowerUnheard(rank))
    with pytest.raises(StoreUnavailableError, match=f"rank {rank} of this token is silent"):
        store(ring, request(2))
    assert payloads(ring, 0) == [b"1"]
    ring.cuts.clear()
    ring.post(0, BeatDue())
    ring.deliver_all()
    assert verdicts(store(ring, request(1), request(2))) == [("REPEATED", 1), ("STORED", 2)]
    assert [payloads(ring, each) for each in RANKS] == [[b"1", b"2"]] * 3


def test_the_next_leader_answers_nothing_until_the_lost_member_is_back(ring: RingOfFiles):
    assert verdicts(store(ring, request(1))) == [("STORED", 1)]
    lead_without_rank_0(ring)
    for asked in (request(1), request(2), request(0)):
        with pytest.raises(StoreUnavailableError, match="waits for both followers"):
            store(ring, asked, rank=1)
    ring.settle()
    assert verdicts(store(ring, request(1), request(2), request(0))) == [("REPEATED", 1), ("STORED", 2), ("ASKED", 2)]


def test_a_new_disk_must_hold_the_log_before_the_next_answer(ring: RingOfFiles):
    assert verdicts(store(ring, request(1))) == [("STORED", 1)]
    ring.lose_disk(2)
    ring.settle()
    assert verdicts(store(ring, request(2))) == [("STORED", 2)]
    assert payloads(ring, 2) == [b"1", b"2"]
