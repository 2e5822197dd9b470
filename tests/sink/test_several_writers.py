"""Several servers of a sink: any of them takes frames, and each session has one valid stream at any time."""

import random

import pytest
from sqlalchemy import Engine, select

from queues.database.tables.receive import receive_queues
from queues.names import site_id
from queues.positions import Position
from queues.wire import replication_pb2 as pb
from sink import SinkWriter
from tests.sink.conftest import Contents, Conversation, NumberedSink, accepted, refused, told
from tests.sink.frames import BRANCH, FIRST, SECOND, batch, begin, chunk, end, numbered, request, session, tick

ALL_FIVE = list(enumerate(numbered(1, 5), start=1))
KEY = ("paris", "policy")


@pytest.fixture
def one(engine: Engine) -> SinkWriter:
    return SinkWriter(engine, site_id("tokyo"))


@pytest.fixture
def two(engine: Engine) -> SinkWriter:
    return SinkWriter(engine, site_id("tokyo"))


def with_number(frame: pb.Frame, number: int) -> pb.Frame:
    return told(frame, {KEY: number})


def send(writer: SinkWriter, number: int, *frames: pb.Frame) -> list[pb.Ack]:
    return list(writer.replicate(with_number(frame, number) for frame in frames))


def store(writer: SinkWriter, *frames: pb.Frame) -> int:
    """Negotiate with *writer* and store *frames* there; return the number of the stream."""
    number = writer.negotiate(request()).stream
    accepted(send(writer, number, *frames))
    return number


def is_outdated(acks: list[pb.Ack]) -> bool:
    return refused(acks).kind == pb.Refusal.NO_STREAM_BEGIN


@pytest.mark.parametrize("is_numbered", [True, False], ids=["numbered", "older source"])
def test_a_late_frame_after_a_rollback_over_another_server_is_refused(
    one: SinkWriter, two: SinkWriter, contents: Contents, is_numbered: bool
) -> None:
    sink = NumberedSink(one) if is_numbered else one
    sink.negotiate(request())
    late = Conversation(sink)
    accepted([late.say(FIRST)])
    # The source has lost entries 4 and 5 and writes others in their place, over the other server.
    accepted([late.say(SECOND)])
    answer = two.negotiate(request(rollback_to=Position(BRANCH, 3)))
    assert answer.received.seq == 3
    assert is_outdated([late.say(batch(3, tick(3, 5, numbered(4, 5))))])
    late.hang_up()
    accepted(send(two, answer.stream, batch(3, tick(3, 4, [b"other 4"], branch="b2"))))
    assert contents.log() == [*ALL_FIVE[:3], (4, b"other 4")]


def test_a_first_frame_that_is_late_after_a_rollback_over_another_server_is_refused(
    one: SinkWriter, two: SinkWriter, contents: Contents
) -> None:
    store(one, FIRST, SECOND)
    earlier = one.negotiate(request()).stream
    later = two.negotiate(request(rollback_to=Position(BRANCH, 3))).stream
    assert is_outdated(send(one, earlier, batch(3, tick(3, 5, numbered(4, 5)))))
    accepted(send(two, later, batch(3, tick(3, 4, [b"other 4"], branch="b2"))))
    assert contents.log() == [*ALL_FIVE[:3], (4, b"other 4")]


def test_each_negotiation_gives_a_higher_number_over_all_servers_and_restarts(
    engine: Engine, one: SinkWriter, two: SinkWriter
) -> None:
    store(one, FIRST)
    writers = [one, two, SinkWriter(engine, site_id("tokyo")), one, two]
    numbers = [writer.negotiate(request()).stream for writer in writers]
    assert numbers == sorted(set(numbers))


def test_every_server_takes_only_the_newest_number(
    engine: Engine, one: SinkWriter, two: SinkWriter, contents: Contents
) -> None:
    store(one, FIRST)
    earlier = one.negotiate(request()).stream
    number = two.negotiate(request()).stream
    restarted = SinkWriter(engine, site_id("tokyo"))
    for writer in (one, two, restarted):
        for other in (earlier, number - 1, number + 1, 2**63, 2**64 - 1):
            assert is_outdated(send(writer, other, SECOND)), other
    assert contents.log() == ALL_FIVE[:3]
    accepted(send(restarted, number, SECOND))
    assert contents.log() == ALL_FIVE


def test_a_frame_with_another_number_is_refused_in_the_middle_of_a_stream(one: SinkWriter, contents: Contents) -> None:
    store(one, FIRST)
    number = one.negotiate(request()).stream
    quiet = batch(3)
    acks = list(one.replicate(iter([with_number(quiet, number), with_number(SECOND, number - 1)])))
    assert (is_outdated(acks), contents.log()) == (True, ALL_FIVE[:3])


@pytest.mark.parametrize("is_elsewhere", [False, True], ids=["the same server", "another server"])
def test_of_two_streams_that_tell_the_same_number_one_stores_entries(
    one: SinkWriter, two: SinkWriter, contents: Contents, is_elsewhere: bool
) -> None:
    store(one, FIRST)
    sink = NumberedSink(one)
    number = sink.negotiate(request()).stream
    first = Conversation(sink)
    accepted([first.say(batch(3))])
    if not is_elsewhere:
        assert is_outdated(send(one, number, SECOND))
        accepted([first.say(SECOND)])
    else:
        accepted(send(two, number, SECOND))
        assert is_outdated([first.say(SECOND)])
    first.hang_up()
    assert contents.log() == ALL_FIVE


def test_a_frame_without_a_number_needs_a_negotiation_with_the_same_server(
    one: SinkWriter, two: SinkWriter, contents: Contents
) -> None:
    store(one, FIRST)
    one.negotiate(request())
    assert is_outdated(list(two.replicate(iter([SECOND]))))
    accepted(list(one.replicate(iter([SECOND]))))
    assert contents.log() == ALL_FIVE


def test_an_unregistered_queue_follows_the_stream_that_stores_the_first_entry(
    one: SinkWriter, two: SinkWriter, engine: Engine, contents: Contents
) -> None:
    streams = [NumberedSink(writer) for writer in (one, two)]
    for stream in streams:
        stream.negotiate(request())
    talks = [Conversation(stream) for stream in streams]
    for each in talks:
        accepted([each.say(batch(0))])
    assert contents.queues() == []
    accepted([talks[1].say(FIRST)])
    assert is_outdated([talks[0].say(batch(0, tick(0, 3, [b"other"] * 3, branch="b2")))])
    accepted([talks[1].say(SECOND)])
    for each in talks:
        each.hang_up()
    assert contents.log() == ALL_FIVE
    with engine.connect() as connection:
        assert len(connection.execute(select(receive_queues.c.queue_id)).all()) == 1


def test_a_stream_of_an_unregistered_queue_ends_with_its_server(
    engine: Engine, one: SinkWriter, two: SinkWriter, contents: Contents
) -> None:
    number = one.negotiate(request()).stream
    for writer in (two, SinkWriter(engine, site_id("tokyo"))):
        assert is_outdated(send(writer, number, FIRST))
    assert contents.queues() == []
    store(two, FIRST)
    assert is_outdated(send(one, number, FIRST))
    assert contents.log() == ALL_FIVE[:3]


def test_a_generation_that_one_server_has_stored_fences_the_streams_of_all(
    one: SinkWriter, two: SinkWriter, contents: Contents
) -> None:
    number = store(one, FIRST)
    two.negotiate(request(session(generation=2)))
    assert refused(send(one, number, SECOND)).kind == pb.Refusal.STALE_LEADER
    assert one.negotiate(request(session(generation=1))).refusal.kind == pb.Refusal.STALE_LEADER
    assert contents.log() == ALL_FIVE[:3]


def test_a_stream_with_a_generation_other_than_that_of_its_negotiation_is_refused(one: SinkWriter) -> None:
    store(one, FIRST)
    number = one.negotiate(request()).stream
    assert is_outdated(send(one, number, batch(3, tick(3, 5, numbered(4, 5)), by=session(generation=2))))


def test_a_snapshot_goes_on_over_another_server_and_never_over_two(
    one: SinkWriter, two: SinkWriter, contents: Contents
) -> None:
    rows = numbered(1, 4)
    earlier = store(one, begin("s1"), chunk("s1", 1, rows[:2]))
    answer = two.negotiate(request())
    assert (answer.staging.sync_id, answer.staging.rows) == ("s1", 2)
    assert is_outdated(send(one, earlier, chunk("s1", 3, [b"other"])))
    rest = chunk("s1", 3, rows[2:]), end("s1", rows, base=Position(BRANCH, 9))
    assert accepted(send(two, answer.stream, *rest)).sync_id == "s1"
    assert [payload for _, _, payload in contents.staged()] == rows


def test_a_stopping_server_names_the_servers_that_take_frames(engine: Engine) -> None:
    stopping = SinkWriter(engine, site_id("tokyo"), others=lambda: ["tcp://10.0.0.2:7400", "tcp://10.0.0.3:7400"])
    stopping.stop()
    refusal = stopping.negotiate(request()).refusal
    assert refusal.kind == pb.Refusal.TRANSIENT
    assert refusal.reason == "this server of site tokyo stops: try tcp://10.0.0.2:7400, tcp://10.0.0.3:7400"


def test_a_stopping_server_that_knows_no_other_asks_for_a_later_attempt(one: SinkWriter) -> None:
    one.stop()
    assert one.negotiate(request()).refusal.reason == "this server of site tokyo stops: try again later"


class Wanderer:
    """A source that moves between servers at random, and repeats, delays and loses frames and its own newest ticks.

    `history` has the branch and the entry of each tick; after a loss the next ticks have another branch.
    """

    def __init__(self, writers: list[SinkWriter], chance: random.Random) -> None:
        self.writers, self.chance = writers, chance
        self.history: list[tuple[str, bytes]] = []
        self.branches = self.made = 1
        self.late: list[tuple[SinkWriter, pb.Frame]] = []
        self.refusals = 0

    def turn(self) -> None:
        """Lose some entries and write some, negotiate anywhere, send some frames; then late frames arrive."""
        if self.history and self.chance.random() < 0.2:
            del self.history[self.chance.randrange(len(self.history)) :]
            self.branches += 1
        for _ in range(self.chance.randrange(4)):
            self.made += 1
            self.history.append((f"b{self.branches}", b"entry %d" % self.made))
        self.send(self.negotiated())
        self.chance.shuffle(self.late)
        while self.late and self.chance.random() < 0.7:
            writer, frame = self.late.pop()
            self.refusals += any(ack.HasField("refusal") for ack in writer.replicate(iter([frame])))

    def negotiated(self) -> pb.NegotiateResponse:
        answer = self.anywhere.negotiate(request())
        received = answer.received
        if received.seq and not self.shares(received.branch, received.seq):
            ends = (Position(header.branch, header.end_seq) for header in answer.headers)
            target = next((end for end in ends if self.shares(*end[:2])), None)
            if target is None:
                return self.begun_anew()
            answer = self.anywhere.negotiate(request(rollback_to=target))
        assert not answer.HasField("refusal"), answer.refusal
        return answer

    @property
    def anywhere(self) -> SinkWriter:
        return self.chance.choice(self.writers)

    def shares(self, branch: str, seq: int) -> bool:
        return seq <= len(self.history) and self.history[seq - 1][0] == branch

    def begun_anew(self) -> pb.NegotiateResponse:
        """Replace everything by an empty snapshot."""
        sync_id = f"s{self.branches}"
        base = Position(f"b{self.branches}", 0)
        store(self.anywhere, begin(sync_id), end(sync_id, [], base=base))
        return self.anywhere.negotiate(request())

    def send(self, answer: pb.NegotiateResponse) -> None:
        # An unregistered queue takes the frames of the server that has answered only, as every queue of an older one.
        frames = [self.frame(seq, answer.stream) for seq in range(answer.received.seq, len(self.history))]
        sent = self.chance.randrange(len(frames) + 1)
        others = [*frames[sent:], *(frame for frame in frames[:sent] if self.chance.random() < 0.2)]
        self.late += [(self.anywhere, frame) for frame in others]
        for _ in self.anywhere.replicate(
            frame for frame in frames[:sent] for _ in range(self.chance.choice([1, 1, 2]))
        ):
            pass

    def frame(self, seq: int, number: int) -> pb.Frame:
        branch, payload = self.history[seq]
        start = Position(self.history[seq - 1][0] if seq else branch, seq)
        return with_number(batch(start, tick(seq, seq + 1, [payload], branch=branch)), number)


def test_random_histories_over_two_servers_arrive_once_and_in_order(
    engine: Engine, contents: Contents, chance: random.Random
) -> None:
    source = Wanderer([SinkWriter(engine, site_id("tokyo")) for _ in range(2)], chance)
    store(source.anywhere, begin("s0"), end("s0", [], base=Position("b1", 0)))
    most = 0
    for _ in range(80):
        source.turn()
        if chance.random() < 0.1:
            source.writers[chance.randrange(2)] = SinkWriter(engine, site_id("tokyo"))
        sent = [payload for _, payload in source.history]
        stored = contents.log()
        assert stored == list(enumerate(sent, start=1))[: len(stored)]
        most = max(most, len(stored))
    assert (most > 0, source.refusals > 0) == (True, True)
