"""The acknowledgements of one stream: each is checked, counted and reported by the work that it answers."""

from collections.abc import Callable

from lr_server.protocol import slow_lines
from lr_server.protocol.answers import SentLog, refused
from lr_server.protocol.events import (
    BatchAcked,
    ChunkAcked,
    EndAcked,
    RefusalKind,
    Refused,
    SessionEvent,
    SnapshotApplied,
)
from lr_server.session.stream_context import StreamContext
from lr_server.session.work import EndWork, LogWork, SnapshotWork, Work
from queues.errors import ProtocolError
from queues.send_snapshot import SnapshotSync
from queues.wire.replication_pb2 import Ack
from queues.words import cleaned


class Acknowledgements:
    """Takes the acknowledgements of one stream; for the thread that receives them."""

    def __init__(self, context: StreamContext, report: Callable[[SessionEvent], None]) -> None:
        self._context = context
        self._report = report
        self._heard = context.clock.monotonic()

    @property
    def silent_seconds(self) -> float:
        """The seconds without an answer of the sink; 0 while nothing is in flight."""
        context = self._context
        return context.clock.monotonic() - max(self._heard, context.inflight.since) if context.inflight.busy else 0.0

    @property
    def may_be_slow(self) -> bool:
        """Whether a stream that is lost now may have a slow line, by `slow_lines.is_suspected`."""
        return slow_lines.is_suspected(self.silent_seconds, self._context.inflight.bytes)

    def is_stalled(self, stall_seconds: float) -> bool:
        """Return whether an answer is overdue, by `slow_lines.stalled_after`."""
        return self.silent_seconds > slow_lines.stalled_after(stall_seconds, self._context.inflight.oldest_bytes)

    def note(self, ack: Ack, work: Work | None) -> Refused | None:
        """Take *ack*, which answers a frame of *work*.

        Return the sink's refusal, or that of an *ack* which answers no such frame.
        """
        self._heard = self._context.clock.monotonic()
        if ack.HasField("refusal"):
            return refused(ack.refusal)
        try:
            self._note_work(ack, work)
        except ProtocolError as error:
            return Refused(RefusalKind.PROTOCOL, cleaned(str(error)))
        self._context.changed()
        return None

    def _note_work(self, ack: Ack, work: Work | None) -> None:
        self._context.inflight.heed(ack.room if ack.HasField("room") else None)
        match work:
            case LogWork(sent=sent) | EndWork(sent=sent):
                self._note_log(ack, sent)
                if ack.ended and isinstance(work, EndWork):
                    self._report(EndAcked())
            case SnapshotWork(snapshot=snapshot, sent=rows):
                if rows.counts(ack):
                    self._note_snapshot(ack, snapshot)
                else:
                    # The sink may have forgotten its staged rows, for which the sender waits.
                    self._context.inflight.bell.set()
            case None:
                pass

    def _note_log(self, ack: Ack, sent: SentLog) -> None:
        context = self._context
        position = sent.accept(ack)
        context.progress.note(position.seq, ack.applied_seq)
        context.inflight.ack(position.seq)
        context.replaced.acknowledged(position.seq)
        delays = context.traffic.acknowledged(position.seq, ack.applied_seq, context.clock.now_us())
        context.paths.lane.note_delays((context.session.client, context.session.sink), delays)
        self._report(BatchAcked(position))

    def _note_snapshot(self, ack: Ack, snapshot: SnapshotSync) -> None:
        if ack.sync_id == snapshot.sync_id:
            self._report(SnapshotApplied(snapshot.sync_id, snapshot.base))
        else:
            self._context.inflight.ack(ack.staging.rows)
            if not self._context.inflight.busy:
                self._context.paths.lane.note_all_acknowledged(self._context)
            self._report(ChunkAcked(snapshot.sync_id, ack.staging.rows))
