"""Streams tell the lane of snapshots the delays of live entries, and wait for their turn on that lane."""

import gc
import threading
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from lr_server.protocol.answers import SentLog, SentSnapshot
from lr_server.session.frame_sources import FrameSources
from lr_server.session.inflight import Inflight
from lr_server.session.outgoing import Found
from lr_server.session.replaced import ReplacedCount
from lr_server.session.sink_progress import SinkProgress
from lr_server.session.snapshot_lane import SnapshotLane
from lr_server.session.stream import FrameStream
from lr_server.session.stream_context import StreamContext
from lr_server.session.traffic import SessionTraffic
from lr_server.session.work import LogWork, SnapshotWork, Work
from queues.clock import SYSTEM_CLOCK, SystemClock
from queues.names import ClientName, SiteId
from queues.positions import Position
from queues.send_snapshot import SnapshotState, SnapshotSync
from queues.wire import replication_pb2 as pb
from sink.rests import Bell, Rest
from tests.lr_server.session.test_frame_stream import SESSION, Taking, Ticks
from tests.waiting import eventually

FULL = SnapshotSync(
    "s1", ClientName("policy"), SiteId("tokyo"), SnapshotState.READY, "", 1, "", Position("b1", 0), 2, 2, 0, "", "",
    0, 0, 0,
)  # fmt: skip
FULL_WORK = SnapshotWork(FULL, 0, SentSnapshot("s1", 0), look=lambda: FULL, mixed=lambda: None)


class HandClock(SystemClock):
    """A clock whose monotonic time moves by hand."""

    def __init__(self) -> None:
        self.time = 1_000.0

    def monotonic(self) -> float:
        return self.time


class Watched(SnapshotLane):
    """A lane that records the questions and the delays of its streams."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__(clock, 1)
        self.questions = 0
        self.delays: list[float] = []

    def pause(self) -> float:
        self.questions += 1
        return super().pause()

    def note_delays(self, session: Hashable, seconds: Iterable[float]) -> None:
        told = list(seconds)
        self.delays += told
        super().note_delays(session, told)


def frames(*_: object) -> Iterator[tuple[pb.Frame, int, int]]:
    """Yield the frames of `FULL`."""
    yield pb.Frame(snapshot_begin=pb.SnapshotBegin(sync_id="s1")), 0, 64
    yield pb.Frame(snapshot_chunk=pb.SnapshotChunk(sync_id="s1", first_row=1)), 2, 1_000


def streamed(
    work: Work,
    lane: SnapshotLane,
    ticks: Ticks,
    until: Callable[[list[pb.Frame]], object],
    *,
    sink: Taking | None = None,
    heartbeat: float = 60.0,
) -> list[pb.Frame]:
    """Return the frames of a stream that carries out *work* with *sink*, once *until* is true of them."""
    sink = sink or Taking()
    context = StreamContext(
        SESSION, FrameSources(ticks, frames, lambda: None, lane),  # type: ignore[arg-type]
        branches=frozenset({"b1"}),
        inflight=Inflight(max_frames=9, max_bytes=10**9, clock=SYSTEM_CLOCK), replaced=ReplacedCount(),
        traffic=SessionTraffic(), progress=SinkProgress(), batch_bytes=10**6, heartbeat=heartbeat,
        clock=SYSTEM_CLOCK, changed=lambda: None,
    )  # fmt: skip
    stream = FrameStream(sink, context, pb.Position(branch="b1"), report=lambda _: None)
    stream.start()
    try:
        stream.assign(work)
        eventually(lambda: until(sink.frames))
    finally:
        stream.close()
        stream.join()
    return sink.frames


def snapshots(sent: list[pb.Frame]) -> int:
    return sum(not frame.HasField("batch") for frame in sent)


def test_a_snapshot_leaves_only_when_the_lane_gives_it_a_turn():
    clock = HandClock()
    lane = Watched(clock)
    # Without a measure of live entries alone, the snapshots rest first.
    lane.note_delays("tokyo", [0.005] * 8)
    before = streamed(FULL_WORK, lane, Ticks(), lambda _: lane.questions >= 3)
    assert snapshots(before) == 0
    clock.time += 0.6
    streamed(FULL_WORK, lane, Ticks(), lambda sent: snapshots(sent) == 1)


def test_a_live_frame_tells_the_lane_its_delay():
    start, lane = Position("b1", 0), Watched(HandClock())
    streamed(LogWork(start, 0, SentLog(start)), lane, Ticks(1), lambda _: lane.delays)
    assert len(lane.delays) == 1


class Filled(Taking):
    """A sink that has no room until a frame without entries asks for it."""

    def replicate(self, frames: Iterator[pb.Frame]) -> Iterator[pb.Ack]:
        for ack in super().replicate(frames):
            ack.room = 10**9 if len(self.frames) > 1 else 0
            yield ack


class Apart(Ticks):
    """Two ticks, each for another frame: the first one of long ago, the second one of now."""

    def __init__(self) -> None:
        super().__init__(1, 1)
        old, new = self._pieces
        self._pieces = [replace(old, since_us=1), replace(new, since_us=2**62)]

    def after(self, *asked: Any, bell: Bell, rests: bool) -> Generator[Rest, None, Found]:
        first, later = self._pieces[:1], self._pieces[1:]
        self._pieces = first
        found = yield from super().after(*asked, bell=bell, rests=rests)
        self._pieces = later
        return found


def test_the_delay_of_an_entry_that_waited_for_room_at_its_sink_is_not_told() -> None:
    start, lane = Position("b1", 0), Watched(HandClock())
    work = LogWork(start, 0, SentLog(start))
    streamed(work, lane, Apart(), lambda _: lane.delays, sink=Filled(), heartbeat=0.01)
    assert lane.delays == [0.0]


def test_only_the_delays_of_live_frames_are_told():
    traffic = SessionTraffic()
    traffic.sent(1, 1, 0)
    traffic.sent(2, 1, 1_000_000, is_live=True)
    traffic.sent(3, 1, 2_000_000, is_live=True)
    assert traffic.acknowledged(2, 0, 3_000_000) == [2.0]
    assert traffic.acknowledged(3, 3, 3_000_000) == [1.0]


def test_frames_are_small_at_a_low_pace_only():
    lane = SnapshotLane(HandClock(), 4 * 1024 * 1024)
    lane.pause()
    assert lane.frame_bytes(2_000_000) == 2_000_000
    lane.note_delays("tokyo", [0.005] * 8)
    lane.pause()
    assert lane.frame_bytes(2_000_000) < 1_000_000
    assert lane.frame_bytes(1_000) == 1_000


class CollectingClock(HandClock):
    """A clock that collects garbage at each question, as the interpreter may do at any moment."""

    def monotonic(self) -> float:
        gc.collect()
        return super().monotonic()


def test_a_lane_that_decides_may_collect_the_frames_of_an_old_stream() -> None:
    lane = SnapshotLane(CollectingClock(), 1)

    def sent() -> Iterator[int]:
        try:
            yield 1
        finally:
            lane.note_all_acknowledged("old")

    # A list that holds itself is garbage that only the collector finds.
    garbage: list[object] = [begun := sent()]
    garbage.append(garbage)
    next(begun)
    del begun, garbage
    thread = threading.Thread(target=lane.note_sent, args=("new", 1), daemon=True)
    thread.start()
    eventually(lambda: not thread.is_alive())
