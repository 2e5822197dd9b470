"""The edge of one session: each effect of its machine, on the sink, the database and the next try."""

from functools import partial
from typing import assert_never

from lr_server.protocol import effects as do
from lr_server.protocol import events as happened
from lr_server.protocol.answers import SentLog, SentSnapshot
from lr_server.protocol.effects import Effect
from lr_server.protocol.states import Draining, State
from lr_server.session import table as session_table
from lr_server.session.connection import SinkConnection
from lr_server.session.context import SessionContext
from lr_server.session.link_end import LinkEnd
from lr_server.session.negotiations import Negotiations
from lr_server.session.outages import log_change
from lr_server.session.snapshots import SessionSnapshots
from lr_server.session.standing import LastStanding
from lr_server.session.turns import Turns
from lr_server.session.work import EndWork, LogWork, SnapshotWork
from queues.clock import jittered
from queues.logs import logger
from queues.positions import Position
from queues.send_log.port import SessionKey

log = logger("lrq.session")


class SessionEdge:
    """Carries out the effects of the session *owed*, one at a time; their events come in later *turns*."""

    def __init__(
        self,
        owed: SessionKey,
        context: SessionContext,
        connection: SinkConnection,
        negotiations: Negotiations,
        snapshots: SessionSnapshots,
        link_end: LinkEnd,
        standing: LastStanding,
        turns: Turns,
    ) -> None:
        self._owed = owed
        self._context = context
        self._connection = connection
        self._negotiations = negotiations
        self._snapshots = snapshots
        self._link_end = link_end
        self._standing = standing
        self._turns = turns
        self._post = turns.post
        self._log = log.bind(client=owed.client, destination=owed.destination)

    def carry_out(self, effect: Effect, state: State) -> None:  # noqa: C901 - one case an effect
        """Carry out *effect*, for which the machine has asked in *state*; raise the error of the sink or database."""
        match effect:
            case do.Negotiate():
                self._post(self._negotiations.negotiate())
            case do.RollBack(to=to):
                self._post(self._negotiations.roll_back(to))
            case do.RequestSnapshot(reason=reason):
                self._post(happened.SnapshotRequested(self._snapshots.request(reason), reason))
            case do.DiscardSnapshot(reason=reason):
                self._snapshots.request(reason)
            case do.WatchSnapshot(sync_id=sync_id):
                self._post(self._snapshots.look(sync_id))
            case do.TransferSnapshot(sync_id=sync_id):
                self._transfer_snapshot(sync_id)
            case do.MarkSnapshotApplied(sync_id=sync_id):
                self._mark_applied(sync_id)
            case do.StreamLog(position=position, read_after=read_after):
                self._stream_log(position, read_after)
                self._post(self._link_end.ordered)
            case do.EndStream():
                self._end_stream(state)
            case do.MarkFinished(order=order):
                self._standing.finish(state)
                self._link_end.note_finished(order)
            case do.StopSending():
                self._connection.assign(None)
            case do.Disconnect():
                self._connection.disconnect()
            case do.Leave():
                self._connection.traffic.plan_change()
                self._context.outages.plan(self._owed)
                self._log.debug("the session connects again for other threads")
                self._connection.leave()
            case do.RetryAfter(attempt=attempt, slow=slow):
                self._retry_after(attempt, slow=slow)
            case do.Report(words=words):
                log_change(self._log, *self._context.outages.note(self._owed, words), words)
            case do.Ignored(why=why):
                self._log.debug("ignored", why=why)
            case _:
                assert_never(effect)

    # --- the connection ---------------------------------------------------------------------------------------

    def _take_way(self, sync_id: str) -> bool:
        """Post the refusal of the sink, if any, and tell whether the session goes on by the way of *sync_id*."""
        refusal = self._connection.take_way(sync_id)
        self._post(refusal)
        return refusal is None

    def _stream_log(self, position: Position, read_after: int) -> None:
        if not self._take_way(""):
            return
        self._connection.sent = SentLog(position, self._connection.sent)
        self._connection.assign(LogWork(position, read_after, self._connection.sent))

    def _end_stream(self, state: State) -> None:
        if not self._connection.takes_end:
            words = f"{self._owed.destination} does not know the end of a stream: upgrade lrq there"
            self._post(happened.EndNotTaken(words), self._connection.stream)
        elif not (isinstance(state, Draining) and self._link_end.is_draining(state.order)):
            # Later entries may be sent already, so the earlier end must not follow them.
            self._link_end.forget()
            self._post(happened.PeerLost("the link has begun again"))
        elif self._connection.sent is not None:
            self._connection.assign(EndWork(self._connection.sent))

    def _retry_after(self, attempt: int, *, slow: bool) -> None:
        limits = self._context.limits
        if limits.retry_limit is not None and attempt > limits.retry_limit:
            self._post(happened.GaveUp())
            return
        delay = jittered(limits.slow_retry_seconds if slow else limits.backoff.delay_seconds(attempt))
        self._turns.retry_after(delay)

    # --- the snapshot -----------------------------------------------------------------------------------------

    def _transfer_snapshot(self, sync_id: str) -> None:
        found = self._snapshots.to_send(sync_id)
        if found is None:
            self._post(happened.SnapshotCancelled(sync_id))
            return
        if not self._take_way(sync_id):
            return
        # A durable commit makes the application's earlier commits durable too, before the snapshot is sent.
        session_table.touch(self._context.engine, self._owed)
        self._connection.sent = None
        kept = self._connection.staged.kept_rows(found)
        self._connection.staged.sends(found)
        self._connection.assign(
            SnapshotWork(
                found,
                kept or 0,
                SentSnapshot(sync_id, kept or 0, forgets=kept is None),
                look=partial(self._snapshots.find, sync_id),
                mixed=self._connection.staged.forget_build,
            )
        )

    def _mark_applied(self, sync_id: str) -> None:
        # An earlier standing must not be saved behind this change.
        with self._context.saving:
            base = self._snapshots.mark_applied(sync_id)
            if base is not None:
                self._connection.progress.acked = base
                self._context.changed.note_written_row(self._owed)
