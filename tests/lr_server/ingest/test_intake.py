"""Requests that come together are stored up to the first that is refused; nothing after it is taken."""

from discovery.rings import Share, ring_of
from lr_server.ingest.intake import Leader
from lr_server.ingest.pending import MESSAGE_BYTES, settle_all
from lr_server.ingest.under_way import UnderWay
from lr_server.ingest.waiting import Room
from queues.wire import ingest_pb2 as pb
from tests.lr_server.ingest.intake_stream import IntakeStream, request

KEYS = [f"meter-{number}" for number in range(40)]


def test_requests_before_a_wrong_one_wait_and_those_after_it_are_not_taken():
    stream = IntakeStream()
    slots = stream.take(request(1), request(2), request(3, destination="oslo"), request(4))
    assert stream.sequences == [1, 2]
    ((slot, reply),) = stream.settled
    assert slot is slots[2]
    assert reply is not None
    assert (reply.sequence, reply.refusal.kind) == (3, pb.ProduceRefusal.NOT_ALLOWED)


def test_a_message_that_cannot_be_read_ends_the_stream_after_those_before_it():
    stream = IntakeStream()
    slots = stream.take(request(1), b"\xff", request(2))
    assert stream.sequences == [1]
    assert [slot for slot, _ in stream.settled] == [slots[1]]


def test_each_message_of_a_request_counts_more_than_its_bytes():
    stream = IntakeStream()
    one = request(1)
    several = pb.ProduceRequest.FromString(request(2))
    several.messages.extend(list(several.messages) * 2)
    sizes = [slot.size for slot in stream.take(one, several.SerializeToString())]
    assert sizes == [len(one) + MESSAGE_BYTES, several.ByteSize() + 3 * MESSAGE_BYTES]


def test_a_full_queue_refuses_the_first_of_the_requests_and_takes_none():
    stream = IntakeStream()
    stream.full.add("meter")
    slots = stream.take(request(1), request(2))
    assert stream.sequences == []
    assert [slot for slot, _ in stream.settled] == [slots[0]]
    assert stream.has_a_free_way()


def test_nothing_behind_a_refused_request_is_taken_also_of_other_producers():
    stream = IntakeStream()
    stream.full.add("b")
    stream.take(request(1, "a"), request(1, "b"), request(1, "c"))
    assert [pending.production.key.producer for pending in stream.kept] == ["a"]
    assert [refusal.kind for refusal in stream.refusals] == [pb.ProduceRefusal.FULL]


def test_several_producers_of_one_stream_keep_their_order():
    stream = IntakeStream()
    stream.take(request(1, "a"), request(1, "b"), request(2, "b"), request(2, "a"))
    names = [(pending.production.key.producer, pending.production.sequence) for pending in stream.kept]
    assert names == [("a", 1), ("b", 1), ("b", 2), ("a", 2)]


def test_a_key_of_another_ring_is_refused_after_those_before_it():
    mine, other = (next(key for key in KEYS if ring_of(key, 3) == number) for number in (0, 1))
    stream = IntakeStream(Share(0, 3))
    slots = stream.take(request(1, key=mine), request(2, key=other), request(3, key=mine))
    assert stream.sequences == [1]
    assert [slot for slot, _ in stream.settled] == [slots[1]]
    assert stream.refusals[0].kind == pb.ProduceRefusal.NOT_ALLOWED
    assert not stream.has_a_free_way()
    settle_all([(stream.kept[0], None)])
    assert stream.has_a_free_way()


def test_requests_that_no_server_can_take_are_not_counted_as_under_way():
    under_way = UnderWay(Room(1, 10_000))
    stream = IntakeStream(under_way=under_way)
    stream.leader = Leader(is_me=False)
    for _ in range(3):
        stream.take(request(1))
    assert {refusal.kind for refusal in stream.refusals} == {pb.ProduceRefusal.NOT_LEADER}
    assert under_way.enter(Room(1, 1)) == ""
