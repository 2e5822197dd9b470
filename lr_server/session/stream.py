"""One connection of a session: it sends frames as the window allows, and receives acknowledgements.

The transport pulls the frames. The stream's own thread reads the acknowledgements, but not those of a `RestingSink`.
"""

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager

from lr_server.protocol.answers import refused
from lr_server.protocol.events import (
    PeerLost,
    RefusalKind,
    Refused,
    SessionEvent,
    SnapshotCancelled,
    SnapshotSent,
    Trimmed,
)
from lr_server.session.acknowledgements import Acknowledgements
from lr_server.session.batches import Batches
from lr_server.session.failures import peer_lost, source_failed
from lr_server.session.stream_context import StreamContext
from lr_server.session.telling import Telling
from lr_server.session.work import EndWork, LogWork, SnapshotWork, Work
from queues.errors import LrqError, ProtocolError, SnapshotCancelledError, TrimmedError
from queues.wire.replication_pb2 import Ack, Batch, EndOfStream, Frame
from queues.wire.replication_pb2 import Position as WirePosition
from queues.words import cleaned
from sink.port import RestingSink, Sink
from sink.rests import Rest

#: The longest sleep of a sender whose turn has not come, in seconds.
_LOOK = 0.5
#: The longest sleep of a sender without work, in seconds; each change of the work sets the bell.
_IDLE = 60.0


class FrameStream:
    """Send the log or a snapshot to one sink, and report events, until the stream is closed or broken.

    The first frame is empty, and begins at *received*, the position in the sink's answer to the negotiation.
    """

    def __init__(
        self,
        sink: Sink | RestingSink,
        context: StreamContext,
        received: WirePosition,
        *,
        report: Callable[[SessionEvent], None],
    ) -> None:
        self._sink = sink
        self._context = context
        self._session = context.session
        self._paths = context.paths
        self._inflight = context.inflight
        self._clock = context.clock
        self._received = received
        self._report = report
        self._telling = Telling(context.paths.active, context.heartbeat, context.clock)
        self._batches = Batches(context, self._telling, self._report_while_open)
        self._acknowledgements = Acknowledgements(context, self._tell)
        self._work: Work | None = None
        self._closed = False
        self._is_finishing = False
        self._guard = threading.Lock()
        self._bell = context.inflight.bell
        self._heard = context.clock.monotonic()
        self._thread: threading.Thread | None = None
        # The threads of the stream that report an event now. An error there ends the session in the same thread.
        self._tellers = set[int]()
        self._ended = threading.Event()

    def start(self) -> None:
        """Begin to send."""
        if isinstance(self._sink, RestingSink):
            self._sink.exchange(self._steps(), self._bell, self._noted, self._end_by)
            return
        name = f"lrq-stream-{self._session.client}-{self._session.sink}"
        self._thread = threading.Thread(target=self._run, args=(self._sink,), name=name, daemon=True)
        self._thread.start()

    def assign(self, work: Work | None) -> None:
        """Replace the current work by *work*; None sends nothing."""
        with self._guard, self._inflight.begun_anew():
            self._work = work
            self._context.replaced.begin()
            self._context.traffic.begin()
        self._paths.outgoing.leave()

    def finish(self) -> None:
        """Stop sending, and take the answers to all frames in flight; `join` waits for them. Does not wait."""
        with self._guard:
            self._is_finishing = True
        self._bell.set()
        self._paths.outgoing.leave()

    def close(self) -> None:
        """Stop sending and forget all frames in flight. Does not wait."""
        with self._guard:
            self._closed = True
            self._work = None
        self._bell.set()
        self._paths.outgoing.leave()

    @property
    def window_percent(self) -> int:
        """The used share of the window, in percent."""
        return self._inflight.percent

    @property
    def silent_seconds(self) -> float:
        """The seconds without an answer of the sink; 0 while nothing is in flight."""
        return self._clock.monotonic() - max(self._heard, self._inflight.since) if self._inflight.busy else 0.0

    def break_off(self, why: str) -> None:
        """Report the connection as lost."""
        if not self._closed:
            self._report(PeerLost(why))

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended, at most *timeout* seconds; call `close` or `finish` first.

        Without a timeout, close the sink too.
        """
        if threading.get_ident() in self._tellers:
            return
        if self._thread is None:
            self._ended.wait(timeout)
        else:
            self._thread.join(timeout)

    # --- acknowledgements -------------------------------------------------------------------------------------

    def _run(self, sink: Sink) -> None:
        try:
            with _closing(sink.replicate(self._frames())) as acks:
                for ack in acks:
                    if not self._noted(ack):
                        break
        except BaseException as error:  # noqa: BLE001 - the top of the loop: the session shows the error and tries again
            self._end_by(error)
        else:
            self._end_by(None)

    def _end_by(self, error: BaseException | None) -> None:
        """Report the end of a stream that is still open."""
        try:
            if error is None:
                self._report_while_open(PeerLost("the sink has ended the stream"))
            elif isinstance(error, LrqError):
                # After a failure of this site the stream is closed already; see `_steps`.
                self._report_while_open(peer_lost(error))
            else:
                self._report_while_open(source_failed(error))
        finally:
            # The transport may still wait for the next frame, and must not join the feed again.
            self.close()
            self._ended.set()

    def _report_while_open(self, event: SessionEvent) -> None:
        if not self._closed:
            self._tell(event)

    def _tell(self, event: SessionEvent) -> None:
        here = threading.get_ident()
        self._tellers.add(here)
        try:
            self._report(event)
        finally:
            self._tellers.discard(here)

    def _noted(self, ack: Ack) -> bool:
        """Take *ack*; return whether the stream goes on."""
        self._heard = self._clock.monotonic()
        if ack.HasField("refusal"):
            self._end_with(refused(ack.refusal))
            return False
        try:
            self._acknowledgements.note(ack, self._work)
            self._context.changed()
        except ProtocolError as error:
            self._end_with(Refused(RefusalKind.PROTOCOL, cleaned(str(error))))
        return not self._closed

    def _end_with(self, refusal: Refused) -> None:
        self._closed = True
        self._tell(refusal)

    # --- frames -----------------------------------------------------------------------------------------------

    def _frames(self) -> Iterator[Frame]:
        """Yield the frames of all work, and rest between them in the thread that asks for them."""
        with closing(self._steps()) as steps:
            for step in steps:
                if isinstance(step, Rest):
                    self._bell.wait(step.seconds)
                else:
                    yield step

    def _steps(self) -> Generator[Frame | Rest, None, None]:
        """Yield the frames and rests of all work. An error here is a failure of this site, and ends the stream."""
        try:
            # A sink ends a stream whose first frame does not come in time. An idle source has nothing else to send.
            yield self._telling.added(Frame(session=self._session, batch=Batch(start=self._received)))
            while (work := (yield from self._next_work())) is not None:
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
            self._report_while_open(source_failed(error))
            self.close()

    def _steps_of(self, work: Work) -> Iterator[Frame | Rest]:
        match work:
            case LogWork():
                return self._log(work)
            case SnapshotWork():
                return self._snapshot(work)
            case EndWork():
                return self._end(work)

    def _next_work(self, done: Work | None = None) -> Generator[Rest, None, Work | None]:
        """Wait for work other than *done*; None when the stream is closed."""
        while True:
            self._bell.clear()
            with self._guard:
                if self._closed or self._is_finishing:
                    return None
                if self._work is not None and self._work is not done:
                    return self._work
            yield Rest(_IDLE)

    def _wants(self, work: Work) -> Callable[[], bool]:
        return lambda: not (self._closed or self._is_finishing) and self._work is work

    def _snapshot(self, work: SnapshotWork) -> Iterator[Frame | Rest]:
        wanted = self._wants(work)
        try:
            for frame, row, size in self._paths.snapshot_frames(work.snapshot, work.after_row):
                if not ((yield from self._has_turn(wanted)) and (yield from self._inflight.admit(row, size, wanted))):
                    return
                self._paths.lane.note_sent(self._context, size)
                frame.session.CopyFrom(self._session)
                work.sent.note(row, is_end=frame.HasField("snapshot_end"))
                if frame.HasField("snapshot_end"):
                    self._report_while_open(SnapshotSent(work.snapshot.sync_id))
                yield frame
        except SnapshotCancelledError:
            # The next work may be assigned already, so the stream goes on.
            self._report_while_open(SnapshotCancelled(work.snapshot.sync_id))
        finally:
            self._paths.lane.note_all_acknowledged(self._context)
        yield from self._next_work(done=work)

    def _has_turn(self, wanted: Callable[[], bool]) -> Generator[Rest, None, bool]:
        """Wait until the lane lets a frame of a snapshot leave; return False once the work is not wanted."""
        while True:
            self._bell.clear()
            if not wanted():
                return False
            if (pause := self._paths.lane.pause()) <= 0:
                return True
            yield Rest(min(pause, _LOOK))

    def _end(self, work: EndWork) -> Iterator[Frame | Rest]:
        end = work.sent.end
        if (yield from self._inflight.admit(end.seq, 0, self._wants(work))):
            where = WirePosition(branch=end.branch, seq=end.seq)
            yield Frame(session=self._session, end_of_stream=EndOfStream(end=where))
        yield from self._next_work(done=work)

    def _log(self, work: LogWork) -> Iterator[Frame | Rest]:
        try:
            yield from self._batches.frames(work, self._wants(work))
        except TrimmedError as error:
            self._report_while_open(Trimmed(error.requested, error.oldest))
            yield from self._next_work(done=work)


@contextmanager
def _closing(acks: Iterator[Ack]) -> Iterator[Iterator[Ack]]:
    try:
        yield acks
    finally:
        close = getattr(acks, "close", None)
        if close is not None:
            close()
