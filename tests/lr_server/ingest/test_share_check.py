"""The leader of a ring refuses keys of other rings."""

import pytest

from discovery.rings import Share, ring_of
from lr_server.ingest.counters import IngestCounters
from lr_server.ingest.intake import Intake, IntakeRules, Leader
from lr_server.ingest.refusal import Refusal
from lr_server.ingest.request_check import RequestLimits
from lr_server.ingest.share_check import foreign_key
from lr_server.ingest.under_way import UnderWay
from lr_server.ingest.waiting import Pending
from lr_server.setting_types import ProducerRule
from queues.wire import ingest_pb2 as pb

KEYS = [f"meter-{number}" for number in range(40)]


@pytest.mark.parametrize("key", KEYS)
def test_only_the_ring_of_a_key_takes_the_key(key: str):
    taken = [number for number in range(3) if not foreign_key([key], Share(number, 3))]
    assert taken == [ring_of(key, 3)]


def test_the_first_foreign_key_is_named_with_its_ring():
    mine, other = (next(key for key in KEYS if ring_of(key, 3) == number) for number in (0, 2))
    words = foreign_key([None, mine, other], Share(0, 3))
    assert words == f"key '{other}' belongs to ring 2, and this is ring 0 of 3: name all rings to the producer"
    long = next(text for text in (f"{n}" * 400 for n in range(100)) if ring_of(text, 3) != 0)
    assert len(foreign_key([long], Share(0, 3))) < 300


def test_entries_without_a_key_and_the_entries_of_a_single_ring_are_taken():
    assert foreign_key([None], Share(1, 3)) == ""
    assert [foreign_key([key], Share(0, 1)) for key in KEYS] == [""] * len(KEYS)


class Keeping:
    """A desk that keeps its requests."""

    def __init__(self) -> None:
        self.kept: list[Pending] = []

    def admit(self, pending: Pending) -> Refusal | None:
        self.kept.append(pending)
        return None


def request(sequence: int, key: str) -> bytes:
    message = pb.ProducedMessage(payload=b"x", destinations=["tokyo"], partition_key=key)
    made = pb.ProduceRequest(client="policy", producer="meter", sequence=sequence, messages=[message])
    return made.SerializeToString()


def test_only_the_leader_refuses_since_another_server_does_not_know_which_requests_are_stored():
    leader, desk = [Leader(is_me=True)], Keeping()
    limits = RequestLimits(10_000, 1_000, 10, rules={"*": ProducerRule()})
    rules = IntakeRules("paris-0", limits, lambda: leader[0], lambda: None, IngestCounters(), UnderWay(), Share(0, 3))
    replies: list[pb.ProduceReply | None] = []
    mine, other = (next(key for key in KEYS if ring_of(key, 3) == number) for number in (0, 1))
    intake = Intake(desk, rules, None)
    intake.take(request(1, mine), replies.append)
    intake.take(request(2, other), replies.append)
    assert [pending.production.sequence for pending in desk.kept] == [1]
    (refused,) = replies
    assert refused is not None
    assert (refused.sequence, refused.refusal.kind) == (2, pb.ProduceRefusal.NOT_ALLOWED)
    assert "belongs to ring 1" in refused.refusal.reason
    leader[0] = Leader(is_me=False)
    Intake(desk, rules, None).take(request(2, other), replies.append)
    assert replies[-1] is not None
    assert replies[-1].refusal.kind == pb.ProduceRefusal.NOT_LEADER
