"""A stream within this process has a thread while it has work, and none while it rests."""

import random
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import pytest
from sqlalchemy import Engine

from queues.clock import SYSTEM_CLOCK
from queues.errors import PeerUnreachableError
from queues.names import site_id
from queues.wire import replication_pb2 as pb
from sink import SinkWriter, local_sink
from sink.local_sink import LocalSink
from sink.rests import Bell, Rest
from tests.sink.frames import FIRST, SECOND, batch, numbered, request, session, tick
from tests.waiting import eventually

#: Longer than a test.
LONG = Rest(600.0)
QUIET = batch(3)


class Stream:
    """One stream to the sink, whose steps a test gives; it keeps the answers and the end."""

    def __init__(self, sink: LocalSink) -> None:
        self.bell = Bell()
        self.acks: list[pb.Ack] = []
        self.ends: list[BaseException | None] = []
        self.takers: list[threading.Thread] = []
        self.is_closed = False
        self.goes_on = True
        self._given: SimpleQueue[pb.Frame | Rest | None] = SimpleQueue()
        sink.exchange(self._steps(), self.bell, self._note, self.ends.append)

    def give(self, *steps: pb.Frame | Rest | None) -> None:
        for step in steps:
            self._given.put(step)
        self.bell.set()

    @property
    def received(self) -> list[int]:
        return [ack.received.seq for ack in self.acks]

    def _steps(self) -> Generator[pb.Frame | Rest, None, None]:
        try:
            while True:
                self.bell.clear()
                if self._given.empty():
                    yield LONG
                    continue
                self.takers.append(threading.current_thread())
                if (step := self._given.get()) is None:
                    return
                yield step
        finally:
            self.is_closed = True

    def _note(self, ack: pb.Ack) -> bool:
        self.acks.append(ack)
        return self.goes_on


@pytest.fixture
def workers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1, thread_name_prefix="worker") as made:
        yield made


@pytest.fixture
def sink(engine: Engine, workers: ThreadPoolExecutor) -> Iterator[LocalSink]:
    made = LocalSink(SinkWriter(engine, site_id("tokyo")), workers)
    assert not made.negotiate(request()).HasField("refusal")
    yield made
    made.close()


@pytest.fixture
def stream(sink: LocalSink) -> Stream:
    return Stream(sink)


def own_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("lrq-stream-")]


def is_at_rest(stream: Stream, frames: int) -> Callable[[], bool]:
    return lambda: len(stream.acks) == frames and not own_threads()


def test_a_stream_at_rest_has_no_thread_and_goes_on_at_its_bell(stream: Stream) -> None:
    for number, frame in enumerate((FIRST, QUIET, SECOND), start=1):
        stream.give(frame)
        eventually(is_at_rest(stream, number))
    assert stream.received == [3, 3, 5]


def test_frames_that_follow_soon_are_taken_by_the_thread_of_the_stream(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_sink, "LINGER_SECONDS", 600.0)
    stream.give(FIRST)
    eventually(lambda: stream.received == [3])
    stream.give(Rest(0.01), SECOND)
    eventually(lambda: stream.received == [3, 5])
    assert own_threads() == ["lrq-stream-policy-tokyo"]
    assert [taker.name for taker in stream.takers[1:]] == ["lrq-stream-policy-tokyo"] * 2


def test_a_thread_does_not_stay_for_frames_without_entries(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_sink, "LINGER_SECONDS", 600.0)
    stream.give(batch(0))
    eventually(is_at_rest(stream, 1))


def test_a_rest_ends_in_its_time(stream: Stream) -> None:
    stream.give(batch(0), Rest(0.05), FIRST)
    eventually(lambda: stream.received == [0, 3])


def test_a_bell_that_rings_just_before_the_rest_ends_it(sink: LocalSink) -> None:
    bell, acks, ends = Bell(), SimpleQueue[pb.Ack](), SimpleQueue[BaseException | None]()

    def steps() -> Iterator[pb.Frame | Rest]:
        # The stream has no thread yet, so a worker takes this step.
        bell.set()
        yield LONG
        yield FIRST

    def note(ack: pb.Ack) -> bool:
        acks.put(ack)
        return True

    sink.exchange((step for step in steps()), bell, note, ends.put)
    assert acks.get(timeout=60).received.seq == 3
    assert ends.get(timeout=60) is None


def test_the_end_of_the_steps_is_the_end_of_the_stream(stream: Stream) -> None:
    stream.give(FIRST, None)
    eventually(lambda: stream.ends == [None] and stream.is_closed)
    assert stream.received == [3]


def test_the_closed_connection_ends_a_stream_at_rest(sink: LocalSink, stream: Stream) -> None:
    stream.give(FIRST)
    eventually(is_at_rest(stream, 1))
    sink.close()
    eventually(lambda: stream.is_closed)
    (error,) = stream.ends
    assert isinstance(error, PeerUnreachableError)
    with pytest.raises(PeerUnreachableError, match="the connection within this process was closed"):
        sink.negotiate(request())


def test_a_stream_ends_whose_connection_is_closed_while_it_looks_for_work(sink: LocalSink) -> None:
    bell, ends = Bell(), SimpleQueue[BaseException | None]()

    def steps() -> Generator[Rest, None, None]:
        sink.close()
        bell.clear()
        yield LONG

    sink.exchange(steps(), bell, lambda _: True, ends.put)
    assert isinstance(ends.get(timeout=60), PeerUnreachableError)


def test_a_source_that_wants_no_further_answer_ends_the_stream(stream: Stream) -> None:
    stream.goes_on = False
    stream.give(FIRST, SECOND)
    eventually(lambda: stream.ends == [None] and stream.is_closed)
    assert stream.received == [3]


def test_a_refusal_ends_the_stream(stream: Stream) -> None:
    stream.give(FIRST, batch(4, tick(4, 5, numbered(5, 5))), SECOND)
    eventually(lambda: stream.ends == [None] and stream.is_closed)
    assert [ack.refusal.kind for ack in stream.acks] == [pb.Refusal.UNSPECIFIED, pb.Refusal.GAP]


def test_an_error_of_the_answers_ends_the_stream(sink: LocalSink, workers: ThreadPoolExecutor) -> None:
    error, ends = ValueError("no room"), SimpleQueue[BaseException | None]()

    def fail(_ack: pb.Ack) -> bool:
        raise error

    sink.exchange((step for step in (FIRST, SECOND)), Bell(), fail, ends.put)
    assert ends.get(timeout=60) is error


def test_a_stream_ends_when_the_machine_has_no_thread(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    really = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith("lrq-stream-"):
            raise RuntimeError("can't start new thread")
        really(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    stream.give(FIRST)
    eventually(lambda: stream.is_closed)
    assert [str(error) for error in stream.ends] == ["can't start new thread"]
    assert stream.acks == []


def test_a_stream_ends_after_the_end_of_the_workers(stream: Stream, workers: ThreadPoolExecutor) -> None:
    stream.give(FIRST)
    eventually(is_at_rest(stream, 1))
    workers.shutdown()
    stream.give(SECOND)
    eventually(lambda: stream.is_closed)
    assert [type(error) for error in stream.ends] == [RuntimeError]


class Counted:
    """A sink that stores frames for clients, each of which sends one frame at a time."""

    def __init__(self) -> None:
        self.stored: dict[str, list[int]] = {}

    def negotiate(self, request: pb.NegotiateRequest) -> pb.NegotiateResponse:
        raise NotImplementedError

    def replicate(self, frames: Iterator[pb.Frame]) -> Iterator[pb.Ack]:
        for frame in frames:
            seq = frame.batch.groups[-1].header.end_seq
            self.stored.setdefault(frame.session.client, []).append(seq)
            yield pb.Ack(received=pb.Position(seq=seq))

    def close(self) -> None:
        """Keep no connection."""


def test_streams_store_each_entry_once_whenever_their_bells_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance, clock, pause = random.Random(seed), SYSTEM_CLOCK, threading.Event()
    monkeypatch.setattr(local_sink, "LINGER_SECONDS", 0.008)
    counted, entries = Counted(), range(1, 151)
    with ThreadPoolExecutor(3) as made:
        connections = [LocalSink(counted, made) for _ in range(12)]
        streams = [Stream(connection) for connection in connections]
        for seq in entries:
            for number, stream in enumerate(streams):
                by = session(client=f"client{number}")
                rests = [Rest(chance.choice((0.0, 0.001)))] * chance.randrange(2)
                stream.give(*rests, batch(seq - 1, tick(seq - 1, seq, [b""][: chance.randrange(2)]), by=by))
                clock.wait(pause, chance.random() * 0.001)
            # No later bell makes up for one that is lost.
            eventually(lambda: {len(stream.acks) for stream in streams} == {seq}, interval=0.001)  # noqa: B023
        for connection, stream in zip(connections, streams, strict=True):
            if chance.random() < 0.5:
                connection.close()
            else:
                stream.give(None)
        eventually(lambda: all(stream.ends and stream.is_closed for stream in streams))
    assert [stream.received for stream in streams] == [list(entries)] * len(streams)
    assert list(counted.stored.values()) == [list(entries)] * len(streams)
    assert {len(stream.ends) for stream in streams} == {1}
    assert {type(stream.ends[0]) for stream in streams} <= {type(None), PeerUnreachableError}
