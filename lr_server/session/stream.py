"""One connection of a session: it sends frames as the window allows, and receives acknowledgements.

The transport pulls the frames (gRPC in a thread of its own). The stream's own thread reads the acknowledgements.
"""

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

from lr_server.protocol.answers import refused
from lr_server.protocol.events import (
    BatchAcked,
    CaughtUp,
    ChunkAcked,
    EndAcked,
    FellBehind,
    PeerLost,
    RefusalKind,
    Refused,
    SessionEvent,
    SnapshotApplied,
    SnapshotCancelled,
    SnapshotSent,
    Trimmed,
)
from lr_server.session.failures import peer_lost, source_failed
from lr_server.session.frame_sources import FrameSources
from lr_server.session.inflight import Inflight
from lr_server.session.outgoing import TickPart, log_frame
from lr_server.session.replaced import ReplacedCount
from lr_server.session.sink_progress import Questions, SinkProgress
from lr_server.session.telling import Telling
from lr_server.session.traffic import SessionTraffic
from lr_server.session.work import EndWork, LogWork, SnapshotWork, Work
from queues.block_limits import MAX_GROUPS, MAX_ROWS
from queues.clock import Clock
from queues.errors import LrqError, ProtocolError, SnapshotCancelledError, StoreUnavailableError, TrimmedError
from queues.logs import logger
from queues.positions import Position
from queues.send_snapshot import SnapshotSync
from queues.wire.replication_pb2 import Ack, Batch, EndOfStream, Frame, SessionId
from queues.wire.replication_pb2 import Position as WirePosition
from queues.words import cleaned
from sink.port import Sink

log = logger("lrq.session")

#: The longest sleep of a sender without work, in seconds.
_LOOK = 0.5
#: The longest wait for new ticks after all known ticks are sent, in seconds.
_IDLE = 60.0


class FrameStream:
    """Send the log or a snapshot to one sink, and report events, until the stream is closed or broken.

    The first frame is empty, and begins at *received*, the position in the sink's answer to the negotiation.
    *branches* are those of the log at the negotiation. A tick of a later branch breaks the stream. The sink may have
    entries that the later branch lacks, and only a negotiation finds them.
    """

    def __init__(
        self,
        sink: Sink,
        session: SessionId,
        paths: FrameSources,
        received: WirePosition,
        *,
        branches: frozenset[str],
        inflight: Inflight,
        replaced: ReplacedCount,
        traffic: SessionTraffic,
        progress: SinkProgress,
        batch_bytes: int,
        heartbeat: float,
        clock: Clock,
        report: Callable[[SessionEvent], None],
    ) -> None:
        self._sink = sink
        self._session = session
        self._paths = paths
        self._received = received
        self._branches = branches
        self._inflight = inflight
        self._replaced = replaced
        self._traffic = traffic
        self._progress = progress
        self._batch_bytes = batch_bytes
        self._heartbeat = heartbeat
        self._telling = Telling(paths.active, heartbeat, clock)
        self._clock = clock
        self._report = report
        self._work: Work | None = None
        self._is_live = False
        # The end of the last wait for room at the sink. Snapshots do not cause the delays of entries of before.
        self._held_us = 0
        self._closed = False
        self._changed = threading.Condition()
        self._heard = clock.monotonic()
        self._thread = threading.Thread(
            target=self._run, name=f"lrq-stream-{session.client}-{session.sink}", daemon=True
        )

    def start(self) -> None:
        """Start the thread that opens the connection."""
        self._thread.start()

    def assign(self, work: Work | None) -> None:
        """Replace the current work by *work*; None sends nothing."""
        with self._changed, self._inflight.begun_anew():
            self._work = work
            self._replaced.begin()
            self._traffic.begin()
            self._changed.notify_all()
        self._paths.outgoing.leave()

    def close(self) -> None:
        """Stop sending and forget all frames in flight. Does not wait."""
        with self._changed:
            self._closed = True
            self._work = None
            self._changed.notify_all()
        self._inflight.wake()
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
        self._lost(why)

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended, at most *timeout* seconds; call `close` first.

        Without a timeout, close the sink too.
        """
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    # --- acknowledgements -------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with _closing(self._sink.replicate(self._frames())) as acks:
                for ack in acks:
                    self._note(ack)
                    if self._closed:
                        return
            self._lost("the sink has ended the stream")
        except LrqError as error:
            # After a failure of this site the stream is closed already; see `_frames`.
            self._report_while_open(peer_lost(error))
        except BaseException as error:  # noqa: BLE001 - the top of the loop: the session shows the error and tries again
            self._report_while_open(source_failed(error))
        finally:
            # The transport may still wait for the next frame, and must not join the feed again.
            self.close()

    def _lost(self, error: str) -> None:
        self._report_while_open(PeerLost(error))

    def _report_while_open(self, event: SessionEvent) -> None:
        if not self._closed:
            self._report(event)

    def _note(self, ack: Ack) -> None:
        self._heard = self._clock.monotonic()
        if ack.HasField("refusal"):
            self._end_with(refused(ack.refusal))
            return
        self._inflight.heed(ack.room if ack.HasField("room") else None)
        try:
            self._note_progress(ack)
        except ProtocolError as error:
            self._end_with(Refused(RefusalKind.PROTOCOL, cleaned(str(error))))

    def _end_with(self, refusal: Refused) -> None:
        self._closed = True
        self._report(refusal)

    def _note_progress(self, ack: Ack) -> None:
        match self._work:
            case LogWork(sent=sent) | EndWork(sent=sent):
                position = sent.accept(ack)
                self._progress.note(position.seq, ack.applied_seq)
                self._inflight.ack(position.seq)
                self._replaced.acknowledged(position.seq)
                delays = self._traffic.acknowledged(position.seq, ack.applied_seq, self._clock.now_us())
                self._paths.lane.note_delays((self._session.client, self._session.sink), delays)
                self._report(BatchAcked(position))
                if ack.ended and isinstance(self._work, EndWork):
                    self._report(EndAcked())
            case SnapshotWork(snapshot=snapshot, sent=rows):
                rows.check(ack)
                self._note_snapshot(ack, snapshot)
            case None:
                pass

    def _note_snapshot(self, ack: Ack, snapshot: SnapshotSync) -> None:
        if ack.sync_id == snapshot.sync_id:
            self._report(SnapshotApplied(snapshot.sync_id, snapshot.base))
        elif ack.staging.sync_id == snapshot.sync_id:
            self._inflight.ack(ack.staging.rows)
            if not self._inflight.busy:
                self._paths.lane.note_all_acknowledged(self)
            self._report(ChunkAcked(snapshot.sync_id, ack.staging.rows))

    # --- frames -----------------------------------------------------------------------------------------------

    def _frames(self) -> Iterator[Frame]:
        """Yield the frames of all work; an error here is a failure of this site, and ends the stream."""
        try:
            # A sink ends a stream whose first frame does not come in time. An idle source has nothing else to send.
            yield self._telling.added(Frame(session=self._session, batch=Batch(start=self._received)))
            while (work := self._next_work()) is not None:
                yield from map(self._telling.added, self._frames_of(work))
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 - the transport would report the error as the sink's
            self._report_while_open(source_failed(error))
            self.close()

    def _frames_of(self, work: Work) -> Iterator[Frame]:
        match work:
            case LogWork():
                return self._log(work)
            case SnapshotWork():
                return self._snapshot(work)
            case EndWork():
                return self._end(work)

    def _next_work(self, done: Work | None = None) -> Work | None:
        """Wait for work other than *done*; None when the stream is closed."""
        with self._changed:
            while not self._closed and (self._work is None or self._work is done):
                self._changed.wait(_LOOK)
            return None if self._closed else self._work

    def _wants(self, work: Work) -> Callable[[], bool]:
        return lambda: not self._closed and self._work is work

    def _snapshot(self, work: SnapshotWork) -> Iterator[Frame]:
        wanted = self._wants(work)
        try:
            for frame, row, size in self._paths.snapshot_frames(work.snapshot, work.after_row):
                if not (self._has_turn(wanted) and self._inflight.admit(row, size, wanted)):
                    return
                self._paths.lane.note_sent(self, size)
                frame.session.CopyFrom(self._session)
                work.sent.note(row, is_end=frame.HasField("snapshot_end"))
                if frame.HasField("snapshot_end"):
                    self._report_while_open(SnapshotSent(work.snapshot.sync_id))
                yield frame
        except SnapshotCancelledError:
            # The next work may be assigned already, so the stream goes on.
            self._report_while_open(SnapshotCancelled(work.snapshot.sync_id))
        finally:
            self._paths.lane.note_all_acknowledged(self)
        self._next_work(done=work)

    def _has_turn(self, wanted: Callable[[], bool]) -> bool:
        """Wait until the lane lets a frame of a snapshot leave; return False once the work is not wanted."""
        with self._changed:
            while wanted() and (pause := self._paths.lane.pause()) > 0:
                self._changed.wait(min(pause, _LOOK))
        return wanted()

    def _end(self, work: EndWork) -> Iterator[Frame]:
        end = work.sent.end
        if self._inflight.admit(end.seq, 0, self._wants(work)):
            where = WirePosition(branch=end.branch, seq=end.seq)
            yield Frame(session=self._session, end_of_stream=EndOfStream(end=where))
        self._next_work(done=work)

    def _log(self, work: LogWork) -> Iterator[Frame]:
        wanted = self._wants(work)
        try:
            for start, pieces in self._batches(work, wanted):
                if not (yield from self._until_admitted(start, pieces, wanted)):
                    return
                if pieces:
                    self._note_sent(pieces)
                    work.sent.note(pieces[-1].end)
                yield self._batch(start, pieces)
        except TrimmedError as error:
            self._report_while_open(Trimmed(error.requested, error.oldest))
            self._next_work(done=work)

    def _note_sent(self, pieces: list[TickPart]) -> None:
        end = pieces[-1].end.seq
        self._replaced.sent(end, sum(piece.replaced for piece in pieces))
        since_us = next((piece.since_us for piece in pieces if piece.rows), 0)
        is_live = self._is_live and since_us >= self._held_us
        self._traffic.sent(end, sum(piece.rows for piece in pieces), since_us, is_live=is_live)

    def _batch(self, start: Position, pieces: list[TickPart]) -> Frame:
        return log_frame(self._session, start, pieces, self._paths.newest())

    def _until_admitted(
        self, start: Position, pieces: list[TickPart], wanted: Callable[[], bool]
    ) -> Generator[Frame, None, bool]:
        """Wait for the window, and with entries for room at the sink; return False once the work is not wanted.

        While the sink has no room, yield a frame without ticks once a heartbeat: its acknowledgement tells the room.
        """
        stored = sum(piece.stored_size for piece in pieces)
        size = stored + sum(piece.size - piece.group.block.plain_size for piece in pieces)
        end = pieces[-1].end.seq if pieces else start.seq
        is_held = stored and not self._inflight.has_room
        if is_held:
            # The live feed must not wait for this session, and other sites with it.
            self._paths.outgoing.leave()
        try:
            while not self._inflight.admit(end, size, wanted, in_room=stored > 0, patience=self._heartbeat):
                if not wanted():
                    return False
                if not self._progress.waits:
                    log.info("entries wait", client=self._session.client, destination=self._session.sink)
                    self._paths.outgoing.leave()
                self._progress.waits = True
                if not self._inflight.admit(start.seq, 0, wanted):
                    return False
                yield self._batch(start, [])
        finally:
            self._progress.waits = False
            if is_held:
                self._held_us = self._clock.now_us()
        return True

    def _batches(self, work: LogWork, wanted: Callable[[], bool]) -> Iterator[tuple[Position, list[TickPart]]]:
        """Yield the ticks of each batch, with the position before the batch.

        Ticks without rows for this session are sent once a heartbeat, or with the next rows. Batches without
        ticks ask for the progress of a subscriber that is behind, less and less often.
        """
        sent = cursor = work.position
        read_after = work.read_after
        is_live: bool | None = None
        waiting: list[TickPart] = []
        size = rows = 0
        told = self._clock.monotonic()
        questions = Questions(self._progress, self._inflight, heartbeat=self._heartbeat, idle=_IDLE)
        while wanted():
            self._inflight.gather(self._batch_bytes, wanted)
            # Before the heartbeat, a tick without rows is not sent, and need not wake this thread.
            rest = self._until_heartbeat(told)
            idle = rest if waiting else min(questions.pause, self._telling.pause, rest or _IDLE)
            found = self._paths.outgoing.after(cursor, read_after, idle, wanted, rests=rest > 0)
            if not wanted():
                return
            if found.is_live is not is_live:
                is_live = self._change_mode(found.is_live, is_live)
            for piece in found.pieces:
                if piece.end.branch not in self._branches:
                    raise StoreUnavailableError("the log has begun another branch: the session negotiates again")
                if waiting and waiting[-1].is_quiet:
                    size -= waiting.pop().size
                # A batch exceeds the limit only if its single part does.
                too_many = len(waiting) == MAX_GROUPS or rows + piece.rows > MAX_ROWS
                if waiting and (too_many or size + piece.size > self._batch_bytes):
                    yield sent, waiting
                    sent, waiting, size, rows, told = waiting[-1].end, [], 0, 0, self._clock.monotonic()
                waiting.append(piece)
                size += piece.size
                rows += piece.rows
                cursor = piece.end
            if waiting and (not waiting[0].is_quiet or self._clock.monotonic() - told >= self._heartbeat):
                yield sent, waiting
                sent, waiting, size, rows, told = cursor, [], 0, 0, self._clock.monotonic()
            elif not waiting and (self._telling.is_due or questions.is_due(self._clock.monotonic() - told)):
                yield sent, []
                told = self._clock.monotonic()
                questions.asked()

    def _until_heartbeat(self, told: float) -> float:
        return max(told + self._heartbeat - self._clock.monotonic(), 0.0)

    def _change_mode(self, is_live: bool, was_live: bool | None) -> bool:
        self._is_live = is_live
        if is_live:
            self._report_while_open(CaughtUp())
        elif was_live:
            self._report_while_open(FellBehind())
        return is_live


@contextmanager
def _closing(acks: Iterator[Ack]) -> Iterator[Iterator[Ack]]:
    try:
        yield acks
    finally:
        close = getattr(acks, "close", None)
        if close is not None:
            close()
