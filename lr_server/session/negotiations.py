"""The negotiations of one session: the exchange with its sink, and the facts of both sides for the decision."""

from dataclasses import replace

from lr_server.protocol import answers
from lr_server.protocol.events import Negotiated, Refused, RolledBack
from lr_server.protocol.histories import SinkHistory, SourceHistory
from lr_server.protocol.negotiation import REGROUPED, Resume, decide, obsolete_request
from lr_server.session import replays
from lr_server.session.connection import SinkConnection
from lr_server.session.context import Leadership, SessionContext
from lr_server.session.history import source_history
from lr_server.session.snapshots import SessionSnapshots
from queues.database.transactions import reading
from queues.errors import StoreUnavailableError, TrimmedError
from queues.logs import logger
from queues.positions import Position
from queues.send_log.port import SessionKey
from queues.send_log.replica_sets import regrouped_seq
from queues.send_log.sessions import find_session
from queues.wire.replication_pb2 import NegotiateResponse, ReplayAnswer

log = logger("lrq.session")


class Negotiations:
    """Negotiates over the connection of one session, and opens its streams; for the session's thread."""

    def __init__(
        self,
        owed: SessionKey,
        context: SessionContext,
        leadership: Leadership,
        connection: SinkConnection,
        snapshots: SessionSnapshots,
    ) -> None:
        self._owed = owed
        self._context = context
        self._leadership = leadership
        self._connection = connection
        self._snapshots = snapshots
        self._log = log.bind(client=owed.client, destination=owed.destination)

    def negotiate(self) -> Negotiated | Refused:
        """Connect anew and decide how the session goes on; a stream is open unless the sink has refused."""
        connection = self._connection
        connection.traffic.negotiated()
        connection.disconnect()
        if connection.way_of and self._snapshots.to_send(connection.way_of) is None:
            # The log must not wait for a way that no snapshot needs any more.
            connection.way_of = ""
        answer = connection.ask()
        refusal = connection.refusal(answer)
        if refusal is None and answer.HasField("replay"):
            answer = connection.ask(replay=self._replay(answer))
            refusal = connection.refusal_beside(answer)
        if refusal is not None:
            return refusal
        sink = connection.hear(answer)
        decided = self._decide(sink)
        if sink.is_empty or sink.received.seq < self._acked_seq():
            # The sink has lost data, so trim and `wait_replicated` must not use its earlier acknowledgements.
            connection.progress.acked = sink.received
            connection.traffic.forget()
        connection.open(answer)
        return decided

    def roll_back(self, to: Position) -> RolledBack | Refused:
        """Connect anew, and let the sink undo its entries after *to*."""
        self._connection.disconnect()
        answer = self._connection.ask(to)
        if refusal := self._connection.refusal_beside(answer):
            return refusal
        received = answers.position_of(answer.received)
        self._connection.sent = None
        self._connection.traffic.forget()
        self._connection.open(answer)
        return RolledBack(received)

    def _decide(self, sink: SinkHistory) -> Negotiated:
        """Compare the histories of both sides, and cancel a request for a snapshot that is obsolete by now."""
        initial_sync = self._context.limits.initial_sync
        source = self._history(sink)
        sink = self._without_other_rows(source, sink)
        self._connection.fence.note_success()
        if obsolete := obsolete_request(source, sink, initial_sync=initial_sync):
            why = "initial_sync is 'log' now" if initial_sync == "log" else "no provider is there, and the log is whole"
            self._snapshots.cancel(obsolete, f"{why}: the session begins with the log")
            source = self._history(sink)
        decision = decide(source, sink, initial_sync=initial_sync)
        if isinstance(decision, Resume) and not self._is_owed_its_rows(sink):
            decision = decide(source, sink, initial_sync=initial_sync, forced=REGROUPED)
        write = self._log.debug if self._context.outages.is_quiet(self._owed) else self._log.info
        write("negotiated", decision=type(decision).__name__, reason=decision.reason)
        return Negotiated(decision)

    def _without_other_rows(self, source: SourceHistory, sink: SinkHistory) -> SinkHistory:
        """Return *sink* without staged rows that are of another build than the offered snapshot."""
        if source.snapshot is None or sink.staged is None:
            return sink
        found = self._snapshots.find(source.snapshot.sync_id)
        is_kept = source.snapshot.ready and found is not None and self._connection.staged.kept_rows(found) is not None
        return sink if is_kept else replace(sink, staged=None)

    def _acked_seq(self) -> int:
        """Return the stored acknowledgement, perhaps of an earlier server."""
        with reading(self._context.engine) as connection:
            found = find_session(connection, self._owed)
        return 0 if found is None else found.acked_seq

    def _is_owed_its_rows(self, sink: SinkHistory) -> bool:
        """Return whether the rows of a tick that the sink has in part are still for its site."""
        boundary_seq, seq = sink.boundary_seq, sink.received.seq
        if boundary_seq == seq:
            return True
        with reading(self._context.engine) as connection:
            if boundary_seq >= regrouped_seq(connection):
                return True
        try:
            return self._connection.outgoing.has_rows(boundary_seq, seq)
        except TrimmedError:
            # The trim of a tick that is for the site tells a loss, and then the session does not resume.
            return False

    def _history(self, sink: SinkHistory) -> SourceHistory:
        found = source_history(self._context.engine, self._owed, sink)
        if found.branches[-1].branch != self._leadership.branch:
            raise StoreUnavailableError("the log has begun another branch: the session begins anew")
        self._connection.branches = frozenset(each.branch for each in found.branches)
        return replace(found, snapshot=found.snapshot and self._snapshots.offered(found.snapshot))

    def _replay(self, answer: NegotiateResponse) -> ReplayAnswer:
        """Answer the sink's order for a replay; a granted one makes the log keep the entries at once."""
        sink, order = answers.history_of(answer), answers.replay_of(answer.replay)
        context, connection = self._context, self._connection
        # An earlier standing must not be saved behind this change.
        with context.saving:
            found = replays.answer_order(
                context.engine, self._owed, self._leadership.lease, sink, order, context.limits.initial_sync
            )
            if found.back is not None:
                connection.progress.acked = found.back
                # The facts may be those of the last save again by the next one, but the row is not.
                context.changed.note_written_row(self._owed)
                # A frame of an earlier stream cannot be stored any more.
                connection.sent = None
                connection.traffic.forget()
        self._log.info("a replay was ordered", refusal=found.answer.refusal, after=found.answer.after.end_seq)
        return found.answer
