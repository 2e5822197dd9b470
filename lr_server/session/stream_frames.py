"""The frames of one stream: those of the log, of a snapshot or of the end, one work after another."""

from collections.abc import Callable, Generator, Iterator
from typing import assert_never

from lr_server.protocol.events import SessionEvent, SnapshotCancelled, SnapshotSent, Trimmed
from lr_server.session.batches import Batches
from lr_server.session.current_work import CurrentWork
from lr_server.session.failures import source_failed
from lr_server.session.frame_sources import SnapshotFrame
from lr_server.session.stream_context import StreamContext
from lr_server.session.telling import Telling
from lr_server.session.work import EndWork, LogWork, SnapshotWork, Work
from queues.errors import SnapshotCancelledError, TrimmedError
from queues.wire.replication_pb2 import Batch, EndOfStream, Frame
from queues.wire.replication_pb2 import Position as WirePosition
from sink.rests import Rest

#: The longest sleep of a sender whose turn has not come, in seconds.
_LOOK = 0.5


class StreamFrames:
    """Makes the frames of one stream, and the rests between them; for the thread that pulls them.

    The first frame is empty, and begins at *received*, the position in the sink's answer to the negotiation. The events
    go to *report*, which passes none of a closed stream on.
    """

    def __init__(
        self,
        context: StreamContext,
        received: WirePosition,
        work: CurrentWork,
        report: Callable[[SessionEvent], None],
    ) -> None:
        self._context = context
        self._session = context.session
        self._inflight = context.inflight
        self._lane = context.paths.lane
        self._received = received
        self._work = work
        self._report = report
        self._telling = Telling(context.paths.active, context.heartbeat, context.clock)
        self._batches = Batches(context, self._telling, report)

    def steps(self) -> Generator[Frame | Rest, None, None]:
        """Yield the frames and rests of all work. An error here is a failure of this site, and ends the stream."""
        try:
            # A sink ends a stream whose first frame does not come in time. An idle source has nothing else to send.
            yield self._telling.added(Frame(session=self._session, batch=Batch(start=self._received)))
            while (work := (yield from self._work.following())) is not None:
                for step in self._steps_of(work):
                    if isinstance(step, Rest):
                        yield step
                        continue
                    # The window admitted the frame just now.
                    self._context.changed()
                    yield self._telling.added(step)
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 - the transport would report the error as the sink's
            self._report(source_failed(error))
            self._work.close()

    def _steps_of(self, work: Work) -> Iterator[Frame | Rest]:
        match work:
            case LogWork():
                return self._log(work)
            case SnapshotWork():
                return self._snapshot(work)
            case EndWork():
                return self._end(work)
            case _:
                assert_never(work)

    def _log(self, work: LogWork) -> Iterator[Frame | Rest]:
        try:
            yield from self._batches.frames(work, self._work.wants(work))
        except TrimmedError as error:
            self._report(Trimmed(error.requested, error.oldest))
            yield from self._work.following(work)

    def _snapshot(self, work: SnapshotWork) -> Iterator[Frame | Rest]:
        wanted = self._work.wants(work)
        try:
            for step in self._pulled(self._context.paths.snapshot_frames(work), wanted):
                if isinstance(step, Rest):
                    yield step
                    continue
                frame, row, size = step
                if not ((yield from self._has_turn(wanted)) and (yield from self._inflight.admit(row, size, wanted))):
                    return
                self._lane.note_sent(self._context, size)
                frame.session.CopyFrom(self._session)
                work.sent.note(row, is_end=frame.HasField("snapshot_end"))
                if frame.HasField("snapshot_end"):
                    self._report(SnapshotSent(work.snapshot.sync_id))
                yield frame
        except SnapshotCancelledError:
            # The next work may be assigned already, so the stream goes on.
            self._report(SnapshotCancelled(work.snapshot.sync_id))
        finally:
            self._lane.note_all_acknowledged(self._context)
        yield from self._work.following(work)

    def _pulled(
        self, steps: Iterator[SnapshotFrame | Rest], wanted: Callable[[], bool]
    ) -> Iterator[SnapshotFrame | Rest]:
        """Yield the *steps* of a snapshot while the work is wanted. A change during a step ends the rest after it."""
        self._inflight.bell.clear()
        while wanted() and (step := next(steps, None)) is not None:
            if isinstance(step, Rest) and not self._inflight.busy:
                self._lane.note_all_acknowledged(self._context)
            yield step
            self._inflight.bell.clear()

    def _has_turn(self, wanted: Callable[[], bool]) -> Generator[Rest, None, bool]:
        """Wait until the lane lets a frame of a snapshot leave; return False once the work is not wanted."""
        while True:
            self._inflight.bell.clear()
            if not wanted():
                return False
            if (pause := self._lane.pause()) <= 0:
                return True
            yield Rest(min(pause, _LOOK))

    def _end(self, work: EndWork) -> Iterator[Frame | Rest]:
        end = work.sent.end
        if (yield from self._inflight.admit(end.seq, 0, self._work.wants(work))):
            where = WirePosition(branch=end.branch, seq=end.seq)
            yield Frame(session=self._session, end_of_stream=EndOfStream(end=where))
        yield from self._work.following(work)
