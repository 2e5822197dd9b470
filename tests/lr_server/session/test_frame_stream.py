"""The frames of one stream: the first tells where the sink stands, and each keeps the limits of a sink."""

from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from lr_server.protocol.answers import SentLog
from lr_server.protocol.events import SourceFailed
from lr_server.session import batch_draft
from lr_server.session.frame_sources import FrameSources
from lr_server.session.inflight import Inflight
from lr_server.session.outgoing import Found, TickPart
from lr_server.session.replaced import ReplacedCount
from lr_server.session.sink_progress import SinkProgress
from lr_server.session.snapshot_lane import SnapshotLane
from lr_server.session.stream import FrameStream
from lr_server.session.stream_context import StreamContext
from lr_server.session.traffic import SessionTraffic
from lr_server.session.work import LogWork
from queues.blocks import EntryRow, encode_entries
from queues.clock import SYSTEM_CLOCK
from queues.positions import Position
from queues.wire import replication_pb2 as pb
from sink.rests import Bell, Rest
from tests.waiting import eventually

SESSION = pb.SessionId(source="paris", sink="tokyo", client="policy", generation=1)


class Taking:
    """A sink that keeps the frames and acknowledges them."""

    def __init__(self) -> None:
        self.frames: list[pb.Frame] = []

    def negotiate(self, request: pb.NegotiateRequest) -> pb.NegotiateResponse:
        raise NotImplementedError

    def replicate(self, frames: Iterator[pb.Frame]) -> Iterator[pb.Ack]:
        for frame in frames:
            self.frames.append(frame)
            groups = frame.batch.groups
            ends = pb.Position(branch="b1", seq=groups[-1].header.end_seq) if groups else frame.batch.start
            yield pb.Ack(received=ends)

    def close(self) -> None:
        """Keep no connection."""


class Resting(Taking):
    """A sink that keeps the steps of a stream and takes none by itself."""

    def exchange(
        self,
        steps: Generator[pb.Frame | Rest, None, None],
        bell: Bell,
        note: Callable[[pb.Ack], bool],
        ended: Callable[[BaseException | None], None],
    ) -> None:
        self.steps, self.bell = steps, bell


class Ticks:
    """The outgoing ticks of a session: one of each number of rows in *sizes*, then none."""

    def __init__(self, *sizes: int) -> None:
        self._pieces = [self._piece(number, rows) for number, rows in enumerate(sizes)]
        #: Whether the stream let ticks without rows pass, for each question.
        self.rests: list[bool] = []

    def _piece(self, number: int, rows: int) -> TickPart:
        block = encode_entries([EntryRow(b"", 0, 5)] * rows) if rows else None
        header = pb.TickHeader(branch="b1", start_seq=100 * number, end_seq=100 * number + 100)
        return TickPart(pb.TickGroup(header=header, block=block, complete=True), Position("b1", 100 * number + 100))

    def after(self, *_: Any, bell: Bell, rests: bool) -> Generator[Rest, None, Found]:
        self.rests.append(rests)
        pieces, self._pieces = self._pieces, []
        if not pieces:
            yield Rest(0.01)
        return Found(pieces, is_live=True)

    def leave(self) -> None:
        """Wait for nothing."""


def made(sink: Taking, ticks: Ticks, received: pb.Position, heartbeat: float = 60.0) -> FrameStream:
    """Return a stream that sends *ticks* to *sink*."""
    paths = FrameSources(ticks, lambda *_: iter(()), lambda: None, SnapshotLane(SYSTEM_CLOCK, 0))  # type: ignore[arg-type]
    window = Inflight(max_frames=1_000, max_bytes=10**9, clock=SYSTEM_CLOCK)
    context = StreamContext(
        SESSION, paths,
        branches=frozenset({"b1"}),
        inflight=window, replaced=ReplacedCount(), traffic=SessionTraffic(), progress=SinkProgress(),
        batch_bytes=10**6, heartbeat=heartbeat, clock=SYSTEM_CLOCK,
        changed=lambda: None,
    )  # fmt: skip
    return FrameStream(sink, context, received, report=lambda _: None)


def sent(ticks: Ticks, count: int, received: pb.Position, heartbeat: float = 60.0) -> list[pb.Frame]:
    """Return the first *count* frames of a stream that sends *ticks*."""
    sink = Taking()
    start = Position("b1", 0)
    stream = made(sink, ticks, received, heartbeat)
    stream.start()
    try:
        eventually(lambda: sink.frames)
        stream.assign(LogWork(start, 0, SentLog(start)))
        eventually(lambda: len(sink.frames) >= count and len(ticks.rests) > count)
    finally:
        stream.close()
        stream.join()
    return sink.frames


def test_the_first_frame_is_empty_and_tells_the_position_that_the_sink_has_received():
    received = pb.Position(branch="b1", seq=7, cut="c")
    first, second = sent(Ticks(1), 2, received)
    assert (first.session, first.batch) == (SESSION, pb.Batch(start=received))
    assert [group.block.rows for group in second.batch.groups] == [1]


def test_a_stream_without_work_rests_for_long_until_its_work_changes():
    sink = Resting()
    stream = made(sink, Ticks(), pb.Position())
    stream.start()
    first, rest = next(sink.steps), next(sink.steps)
    assert (type(first), type(rest)) == (pb.Frame, Rest)
    # A server with a hundred sessions that wait for their snapshots must not look at them all the time.
    assert rest.seconds >= 60
    assert not sink.bell.is_set
    stream.assign(LogWork(Position("b1", 0), 0, SentLog(Position("b1", 0))))
    assert sink.bell.is_set
    stream.close()
    assert sink.bell.is_set
    assert next(sink.steps, None) is None


def test_a_stream_lets_ticks_without_rows_pass_until_its_heartbeat():
    for heartbeat, rests in ((60.0, True), (0.0, False)):
        ticks = Ticks(1)
        sent(ticks, 2, pb.Position(), heartbeat)
        assert set(ticks.rests) == {rests}


@pytest.mark.parametrize(
    ("sizes", "frames"),
    [
        ((4, 4, 4), [[4, 4], [4]]),
        ((10, 1, 9, 1), [[10], [1, 9], [1]]),
        ((11, 1), [[11], [1]]),
        ((1, 1, 1, 1, 1, 1), [[1, 1, 1, 1], [1, 1]]),
    ],
    ids=["rows", "exactly", "one tick", "ticks"],
)
def test_a_batch_holds_no_more_rows_and_ticks_than_a_sink_takes(sizes, frames, monkeypatch):
    monkeypatch.setattr(batch_draft, "MAX_ROWS", 10)
    monkeypatch.setattr(batch_draft, "MAX_GROUPS", 4)
    _, *batches = sent(Ticks(*sizes), len(frames) + 1, pb.Position())
    assert [[group.block.rows for group in each.batch.groups] for each in batches] == frames


def test_a_tick_of_a_branch_that_the_negotiation_did_not_know_breaks_the_stream():
    sink, told = Taking(), list[Any]()
    start = Position("b0", 0)
    paths = FrameSources(Ticks(1), lambda *_: iter(()), lambda: None, SnapshotLane(SYSTEM_CLOCK, 0))  # type: ignore[arg-type]
    context = StreamContext(
        SESSION, paths,
        branches=frozenset({"b0"}),
        inflight=Inflight(max_frames=9, max_bytes=10**9, clock=SYSTEM_CLOCK), replaced=ReplacedCount(),
        traffic=SessionTraffic(), progress=SinkProgress(), batch_bytes=10**6, heartbeat=60.0,
        clock=SYSTEM_CLOCK, changed=lambda: None,
    )  # fmt: skip
    stream = FrameStream(sink, context, pb.Position(branch="b0"), report=told.append)
    stream.start()
    try:
        stream.assign(LogWork(start, 0, SentLog(start)))
        (failed,) = eventually(lambda: [event for event in told if isinstance(event, SourceFailed)])
    finally:
        stream.close()
        stream.join()
    assert "another branch" in failed.reason
    assert [len(frame.batch.groups) for frame in sink.frames] == [0]
