"""A leader is proven by one follower that keeps its promise, and by nothing else."""

import threading

import pytest

from discovery.ring_status import RingStatus
from lr_server.ring.lead_proof import LeadProof
from queues.clock import SYSTEM_CLOCK
from queues.errors import PeerUnreachableError
from tests.waiting import eventually


class Other:
    """Another member that tells *status*, fails, or waits until `may_answer`."""

    def __init__(self, status: RingStatus | None, *, waits: bool = False) -> None:
        self.status = status
        self.asked = 0
        self.may_answer = threading.Event()
        if not waits:
            self.may_answer.set()

    def look(self) -> RingStatus:
        self.asked += 1
        assert self.may_answer.wait(60)
        if self.status is None:
            raise PeerUnreachableError("gone")
        return self.status


FOLLOWER = RingStatus(2, "following", 4)
GONE = None


@pytest.mark.parametrize(
    ("states", "proven"),
    [
        ([FOLLOWER, GONE], True),
        ([RingStatus(1, "following", 5), FOLLOWER], True),
        ([RingStatus(1, "following", 5), RingStatus(2, "following", 5)], False),
        ([RingStatus(1, "proposing", 4), RingStatus(2, "newcomer", 4)], False),
        ([RingStatus(1, "retired", 4), GONE], False),
        ([], False),
    ],
)
def test_one_follower_of_the_generation_is_enough(states: list[RingStatus | None], proven: bool):
    others = [Other(status) for status in states]
    assert LeadProof(lambda: others, SYSTEM_CLOCK)(4, 60.0) is proven


def test_a_silent_member_is_not_asked_twice_and_the_other_one_proves_the_lead():
    silent, follower = Other(FOLLOWER, waits=True), Other(FOLLOWER)
    proof = LeadProof(lambda: [silent, follower], SYSTEM_CLOCK)
    try:
        assert all(eventually(lambda: proof(4, 60.0)) for _ in range(5))
        assert silent.asked == 1
    finally:
        silent.may_answer.set()


def test_the_wait_for_silent_members_ends():
    silent = Other(FOLLOWER, waits=True)
    try:
        assert LeadProof(lambda: [silent], SYSTEM_CLOCK)(4, 0.01) is False
    finally:
        silent.may_answer.set()
