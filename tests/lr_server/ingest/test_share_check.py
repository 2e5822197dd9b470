"""The leader of a ring refuses keys of other rings."""

import pytest

from discovery.rings import Share, ring_of
from lr_server.ingest.intake import Leader
from lr_server.ingest.share_check import foreign_key
from queues.wire import ingest_pb2 as pb
from tests.lr_server.ingest.intake_stream import IntakeStream, request

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


def test_only_the_leader_refuses_since_another_server_does_not_know_which_requests_are_stored():
    stream = IntakeStream(Share(0, 3))
    mine, other = (next(key for key in KEYS if ring_of(key, 3) == number) for number in (0, 1))
    stream.take(request(1, key=mine))
    stream.take(request(2, key=other))
    assert stream.sequences == [1]
    (refused,) = stream.refusals
    assert refused.kind == pb.ProduceRefusal.NOT_ALLOWED
    assert "belongs to ring 1" in refused.reason
    elsewhere = IntakeStream(Share(0, 3))
    elsewhere.leader = Leader(is_me=False)
    elsewhere.take(request(2, key=other))
    assert [refusal.kind for refusal in elsewhere.refusals] == [pb.ProduceRefusal.NOT_LEADER]
