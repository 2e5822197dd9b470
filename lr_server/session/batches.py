"""The batches of the log that one stream sends: when each is due, and when the window admits it."""

from collections.abc import Callable, Generator, Iterator

from lr_server.protocol.events import CaughtUp, FellBehind, SessionEvent
from lr_server.session.batch_draft import BatchDraft
from lr_server.session.outgoing import TickPart, log_frame
from lr_server.session.sink_progress import Questions
from lr_server.session.stream_context import StreamContext
from lr_server.session.telling import Telling
from lr_server.session.work import LogWork
from queues.errors import StoreUnavailableError
from queues.logs import logger
from queues.positions import Position
from queues.wire.replication_pb2 import Frame
from sink.rests import Rest

log = logger("lrq.session")

#: The longest wait for new ticks after all known ticks are sent, in seconds.
_IDLE = 60.0


class Batches:
    """Makes the frames of the log for one stream; for the thread that pulls its frames."""

    def __init__(self, context: StreamContext, telling: Telling, report: Callable[[SessionEvent], None]) -> None:
        self._context = context
        self._telling = telling
        self._report = report
        self._is_live = False
        # The end of the last wait for room at the sink. Snapshots do not cause the delays of entries of before.
        self._held_us = 0

    def frames(self, work: LogWork, wanted: Callable[[], bool]) -> Iterator[Frame | Rest]:
        """Yield a frame for each batch, while *work* is wanted; raise `TrimmedError` if entries are gone.

        Between them yield each wait for further entries.
        """
        for due in self._due(work, wanted):
            if isinstance(due, Rest):
                yield due
                continue
            start, pieces = due
            if not (yield from self._until_admitted(start, pieces, wanted)):
                return
            if pieces:
                self._note_sent(pieces)
                work.sent.note(pieces[-1].end)
            yield self._batch(start, pieces)

    def _note_sent(self, pieces: list[TickPart]) -> None:
        end = pieces[-1].end.seq
        self._context.replaced.sent(end, sum(piece.replaced for piece in pieces))
        since_us = next((piece.since_us for piece in pieces if piece.rows), 0)
        is_live = self._is_live and since_us >= self._held_us
        self._context.traffic.sent(end, sum(piece.rows for piece in pieces), since_us, is_live=is_live)

    def _batch(self, start: Position, pieces: list[TickPart]) -> Frame:
        return log_frame(self._context.session, start, pieces, self._context.paths.newest())

    def _until_admitted(
        self, start: Position, pieces: list[TickPart], wanted: Callable[[], bool]
    ) -> Generator[Frame | Rest, None, bool]:
        """Wait for the window, and with entries for room at the sink; return False once the work is not wanted.

        While the sink has no room, yield a frame without ticks once a heartbeat: its acknowledgement tells the room.
        """
        session, inflight, progress = self._context.session, self._context.inflight, self._context.progress
        stored = sum(piece.stored_size for piece in pieces)
        size = stored + sum(piece.size - piece.group.block.plain_size for piece in pieces)
        end = pieces[-1].end.seq if pieces else start.seq
        is_held = stored and not inflight.has_room
        if is_held:
            # The live feed must not wait for this session, and other sites with it.
            self._context.paths.outgoing.leave()
        try:
            patience = self._context.heartbeat
            while not (yield from inflight.admit(end, size, wanted, in_room=stored > 0, patience=patience)):
                if not wanted():
                    return False
                if not progress.waits:
                    log.info("entries wait", client=session.client, destination=session.sink)
                    self._context.paths.outgoing.leave()
                    progress.waits = True
                    self._context.changed()
                if not (yield from inflight.admit(start.seq, 0, wanted)):
                    return False
                yield self._batch(start, [])
        finally:
            progress.waits = False
            self._context.changed()
            if is_held:
                self._held_us = self._context.clock.now_us()
        return True

    def _due(self, work: LogWork, wanted: Callable[[], bool]) -> Iterator[tuple[Position, list[TickPart]] | Rest]:
        """Yield the ticks of each batch, with the position before the batch.

        Ticks without rows for this session are sent once a heartbeat, or with the next rows. Batches without
        ticks ask for the progress of a subscriber that is behind, less and less often.
        """
        context, clock = self._context, self._context.clock
        draft, cursor = BatchDraft(work.position, context.batch_bytes), work.position
        is_live: bool | None = None
        told = clock.monotonic()
        questions = Questions(context.progress, context.inflight, heartbeat=context.heartbeat, idle=_IDLE)
        while wanted():
            yield from context.inflight.gather(context.batch_bytes, wanted)
            # Before the heartbeat, a tick without rows is not sent, and need not wake this thread.
            rest = max(told + context.heartbeat - clock.monotonic(), 0.0)
            idle = rest if draft.pieces else min(questions.pause, self._telling.pause, rest or _IDLE)
            found = yield from context.paths.outgoing.after(
                cursor, work.read_after, idle, wanted, bell=context.inflight.bell, rests=rest > 0
            )
            if not wanted():
                return
            if found.is_live is not is_live:
                is_live = self._change_mode(found.is_live, is_live)
            for piece in found.pieces:
                if piece.end.branch not in context.branches:
                    raise StoreUnavailableError("the log has begun another branch: the session negotiates again")
                draft.drop_quiet_end()
                if draft.is_full_for(piece):
                    yield draft.take()
                    told = clock.monotonic()
                draft.add(piece)
                cursor = piece.end
            if draft.pieces and (not draft.is_quiet or clock.monotonic() - told >= context.heartbeat):
                yield draft.take()
                told = clock.monotonic()
            elif not draft.pieces and (self._telling.is_due or questions.is_due(clock.monotonic() - told)):
                yield draft.take()
                told = clock.monotonic()
                questions.asked()

    def _change_mode(self, is_live: bool, was_live: bool | None) -> bool:
        self._is_live = is_live
        if is_live:
            self._report(CaughtUp())
        elif was_live:
            self._report(FellBehind())
        return is_live
