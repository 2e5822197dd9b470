"""A bounded receive queue: each answer tells its room, and a source that ignores the room is refused."""

import pytest

from queues.names import site_id
from queues.positions import Position
from queues.receive.marks import stored_size
from queues.wire import replication_pb2 as pb
from sink import SinkWriter
from tests.sink.conftest import Conversation, accepted, refused, talk
from tests.sink.frames import BRANCH, FIRST, SECOND, batch, begin, chunk, end, numbered, request, tick


def size_of(*frames: pb.Frame) -> int:
    """Return the bytes that the entries of *frames* count."""
    blocks = [group.block for frame in frames for group in frame.batch.groups]
    return sum(stored_size(block.plain_size, block.rows) for block in blocks)


FIRST_SIZE = size_of(FIRST)
BOUND = FIRST_SIZE + 10
QUESTION = batch(3)


@pytest.fixture
def sink(engine, connect):
    """The sink of site `tokyo`, whose queues take a little more than the first batch."""
    return connect(SinkWriter(engine, site_id("tokyo"), receive_bytes=BOUND))


def test_an_acknowledgement_and_a_negotiation_tell_the_room(sink, contents):
    assert sink.negotiate(request()).room == BOUND
    assert accepted(talk(sink, FIRST)).room == 10
    assert sink.negotiate(request()).room == 10
    assert accepted(talk(sink, SECOND)).room == 0
    assert contents.marks().bytes_total == size_of(FIRST, SECOND)


def test_an_unbounded_sink_tells_no_room(engine, connect):
    unbounded = connect(SinkWriter(engine, site_id("tokyo")))
    assert not unbounded.negotiate(request()).HasField("room")
    assert not accepted(talk(unbounded, FIRST)).HasField("room")


def test_a_full_queue_refuses_new_entries_and_keeps_its_own(sink, contents):
    accepted(talk(sink, FIRST, SECOND))
    refusal = refused(talk(sink, batch(5, tick(5, 6, [b"x"]))))
    assert refusal.kind == pb.Refusal.FULL
    assert f"receive_bytes is {BOUND}" in refusal.reason
    assert len(contents.log()) == 5


def test_a_full_queue_takes_repeated_entries_and_ticks_without_entries(sink, contents):
    accepted(talk(sink, FIRST, SECOND))
    ack = accepted(talk(sink, SECOND, batch(5, tick(5, 9))))
    assert (ack.received.seq, ack.room) == (9, 0)
    assert contents.marks().bytes_total == size_of(FIRST, SECOND)


def test_a_frame_without_ticks_tells_the_room_and_changes_nothing(sink, contents):
    sink.negotiate(request())
    talk_to = Conversation(sink)
    talk_to.say(FIRST)
    before = contents.marks()
    contents.consume(3, size=FIRST_SIZE)
    ack = talk_to.say(QUESTION)
    assert (ack.received.seq, ack.applied_seq, ack.room) == (3, 3, BOUND)
    assert contents.marks() == before
    assert talk_to.say(SECOND).room == BOUND - size_of(SECOND)
    talk_to.hang_up()


def test_a_transaction_above_the_bound_arrives_at_an_empty_queue(sink):
    parts = [
        batch(0, tick(0, 9, numbered(1, 3), complete=False)),
        batch(3, tick(0, 9, numbered(4, 6), first_index=3, complete=False)),
        batch(6, tick(0, 9, numbered(7, 9), first_index=6)),
    ]
    assert [ack.room for ack in talk(sink, *parts)] == [BOUND, BOUND, 0]


def test_a_snapshot_needs_no_room_and_empties_the_queue(sink, contents):
    accepted(talk(sink, FIRST, SECOND))
    rows = numbered(1, 9)
    ack = accepted(talk(sink, begin("s1"), chunk("s1", 1, rows), end("s1", rows, base=Position(BRANCH, 7))))
    assert (ack.sync_id, ack.room) == ("s1", BOUND)
    assert contents.marks().bytes_total == 0


def test_a_rollback_gives_the_room_of_lost_entries_back(sink):
    accepted(talk(sink, FIRST, SECOND))
    assert sink.negotiate(request(rollback_to=Position(BRANCH, 3))).room == BOUND - FIRST_SIZE


def test_a_subscriber_before_the_newest_snapshot_has_freed_its_room(sink, contents):
    accepted(talk(sink, FIRST))
    contents.consume(3, size=FIRST_SIZE)
    rows = numbered(1, 2)
    accepted(talk(sink, begin("s1"), chunk("s1", 1, rows), end("s1", rows, base=Position(BRANCH, 7))))
    later = batch(7, tick(7, 8, [b""]))
    assert accepted(talk(sink, later)).room == BOUND - size_of(later)
