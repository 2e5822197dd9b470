"""One session at work: a thread that feeds the pure machine with what happened and carries out what it asks for.

The order of effects is the machine's; nothing here decides. What must be durable is so before anything is sent.
"""

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, singledispatchmethod

from sqlalchemy import Engine

from lr_server import effects as do
from lr_server import events as happened
from lr_server import session_table
from lr_server.backoff import Backoff
from lr_server.effects import Effect
from lr_server.events import Event, RefusalKind
from lr_server.inflight import Inflight
from lr_server.machine import advance
from lr_server.negotiation import InitialSync, decide
from lr_server.outgoing import Outgoing
from lr_server.source_history import sink_history, source_history
from lr_server.states import Idle, LogEntrySync, SnapshotTransferring, Standing, State, Stopped, describe
from lr_server.stream import LogWork, Paths, SnapshotWork, Stream
from queues import snapshots
from queues.clock import Clock, jittered
from queues.errors import LrqError, PeerUnreachableError, ProtocolError
from queues.leases import Lease
from queues.log.port import Owed
from queues.logs import logger
from queues.names import SiteId
from queues.positions import Position
from queues.snapshots import Snapshot, SnapshotState
from queues.transactions import reading, writing
from queues.wire.replication_pb2 import NegotiateRequest, NegotiateResponse, SessionId
from queues.wire.replication_pb2 import Position as WirePosition
from sink.port import PROTOCOL, Sink

log = logger("lrq.session")


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """How much one session has in flight, and how often it speaks when there is nothing to say."""

    window_frames: int
    window_bytes: int
    batch_bytes: int
    heartbeat_seconds: float
    stall_seconds: float
    slow_retry_seconds: float
    backoff: Backoff
    initial_sync: InitialSync


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all sessions of a server share."""

    engine: Engine
    site: SiteId
    lease: Lease
    clock: Clock
    limits: SessionLimits
    connect: Callable[[SiteId], Sink]
    on_fenced: Callable[[str], None]
    outgoing: Callable[[Owed], Outgoing]
    paths: Callable[[Outgoing], Paths]


class Session:
    """Source × destination × client, from `start` to `stop`."""

    def __init__(self, owed: Owed, around: Surroundings) -> None:
        self.owed = owed
        self._around = around
        self._state: State = Idle()
        self._events: queue.SimpleQueue[tuple[Event, Stream | None]] = queue.SimpleQueue()
        self._sink: Sink | None = None
        self._stream: Stream | None = None
        self._outgoing = around.outgoing(owed)
        self._retry_at: float | None = None
        self._told: Snapshot | None = None
        self._acked: Position | None = None
        self._applied_seq = 0
        self._shown: tuple[State, Position | None, int, Standing] | None = None
        self._log = log.bind(client=owed.client, destination=owed.destination)
        self._thread = threading.Thread(
            target=self._run, name=f"lrq-session-{owed.client}-{owed.destination}", daemon=True
        )

    # --- from outside -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to negotiate."""
        self._post(happened.Started())
        self._thread.start()

    def stop(self, *, lost: str | None = None) -> None:
        """End at once; *lost* says why, when the site is another server's now. `join` waits for it."""
        self._post(happened.StopRequested() if lost is None else happened.OwnershipLost(lost))

    def join(self) -> None:
        """Wait until nothing of the session runs any more."""
        if self._thread.is_alive():
            self._thread.join()

    def note_snapshot(self, newest: Snapshot | None) -> None:
        """Tell the newest snapshot request of this session; called by whoever watches the table for all sessions."""
        if newest is None or newest == self._told:
            return
        before, self._told = self._told, newest
        if not newest.finished and (before is None or before.sync_id != newest.sync_id):
            self._post(happened.SnapshotRequested(newest.sync_id, newest.reason))
        self._post(_snapshot_event(newest))

    def check_stall(self) -> None:
        """Give up a connection whose sink owes an answer for too long; called by whoever looks after all sessions."""
        stream = self._stream
        if stream is not None and stream.silent_seconds > self._around.limits.stall_seconds:
            stream.break_off(f"stalled: no acknowledgement for {self._around.limits.stall_seconds:g} s")

    @property
    def standing(self) -> Standing:
        """How things stand now; the same object while nothing changes, because it is looked at all the time."""
        state, acked, applied_seq = self._state, self._acked, self._applied_seq
        shown = self._shown
        if shown is None or not (shown[0] is state and shown[1] is acked and shown[2] is applied_seq):
            rows = state.acked_row if isinstance(state, SnapshotTransferring) else 0
            self._shown = shown = state, acked, applied_seq, Standing(describe(state), acked, applied_seq, rows)
        return shown[3]

    # --- the thread -------------------------------------------------------------------------------------------

    def _post(self, event: Event | None, stream: Stream | None = None) -> None:
        if event is not None:
            self._events.put((event, stream))

    def _run(self) -> None:
        while not isinstance(self._state, Stopped):
            event, stream = self._wait()
            if stream is not None and stream is not self._stream:
                continue
            self._take(event)

    def _wait(self) -> tuple[Event, Stream | None]:
        while True:
            pause = None
            if self._retry_at is not None:
                pause = max(self._retry_at - self._around.clock.monotonic(), 0.0)
            try:
                return self._events.get(timeout=pause)
            except queue.Empty:
                self._retry_at = None
                return happened.RetryDue(), None

    def _take(self, event: Event) -> None:
        if isinstance(event, happened.Refused) and event.kind is RefusalKind.STALE_LEADER:
            self._guarded(partial(self._around.on_fenced, event.reason))
        self._state, asked = advance(self._state, event)
        if isinstance(self._state, LogEntrySync):
            self._acked = self._state.acked
        for effect in asked:
            if not self._guarded(partial(self._carry_out, effect)):
                return

    def _guarded(self, act: Callable[[], None]) -> bool:
        """Act; tell whether that went well. What went wrong breaks the connection, and is tried again with the next."""
        try:
            act()
        except ProtocolError as error:
            self._post(happened.Refused(RefusalKind.PROTOCOL, str(error)))
        except LrqError as error:
            self._post(happened.PeerLost(str(error)))
        except Exception as error:  # noqa: BLE001 - the session's loop top: recorded, backed off, tried again
            self._log.exception("the session failed unexpectedly")
            self._post(happened.PeerLost(f"{type(error).__name__}: {error}"))
        else:
            return True
        return False

    # --- effects ----------------------------------------------------------------------------------------------

    @singledispatchmethod
    def _carry_out(self, effect: Effect) -> None:
        raise NotImplementedError(type(effect).__name__)

    @_carry_out.register
    def _(self, _effect: do.Negotiate) -> None:
        self._disconnect()
        answer = self._ask()
        if answer.HasField("refusal"):
            self._post(happened.Refused(RefusalKind(answer.refusal.kind), answer.refusal.reason))
            return
        if answer.site != self.owed.destination:
            words = f"site {answer.site!r} answers where {self.owed.destination!r} was expected: correct `peers`"
            self._post(happened.Refused(RefusalKind.WRONG_SITE, words))
            return
        sink = sink_history(answer)
        self._applied_seq = answer.applied_seq
        source = source_history(self._around.engine, self.owed, sink)
        decision = decide(source, sink, initial_sync=self._around.limits.initial_sync)
        self._log.info("negotiated", decision=type(decision).__name__, reason=decision.reason)
        if sink.is_empty:
            # It may have lost what it had: whoever waits for it, or trims, must not go by what it acknowledged then.
            self._acked = sink.received
        self._open()
        self._post(happened.Negotiated(decision))

    @_carry_out.register
    def _(self, effect: do.RollBack) -> None:
        self._disconnect()
        answer = self._ask(effect.to)
        if answer.HasField("refusal"):
            self._post(happened.Refused(RefusalKind(answer.refusal.kind), answer.refusal.reason))
            return
        received = answer.received
        self._open()
        self._post(happened.RolledBack(Position(received.branch, received.seq, received.cut)))

    def _ask(self, rollback_to: Position | None = None) -> NegotiateResponse:
        if self._sink is None:
            self._sink = self._around.connect(self.owed.destination)
        request = NegotiateRequest(protocol=PROTOCOL, session=self._name())
        if rollback_to is not None:
            request.rollback_to.CopyFrom(WirePosition(branch=rollback_to.branch, seq=rollback_to.seq))
        return self._sink.negotiate(request)

    def _name(self) -> SessionId:
        around = self._around
        return SessionId(
            source=around.site, sink=self.owed.destination, client=self.owed.client, generation=around.lease.generation
        )

    def _open(self) -> None:
        limits = self._around.limits
        if self._sink is None:
            raise PeerUnreachableError("the connection was given up")
        stream = Stream(
            self._sink,
            self._name(),
            self._around.paths(self._outgoing),
            inflight=Inflight(max_frames=limits.window_frames, max_bytes=limits.window_bytes, clock=self._around.clock),
            batch_bytes=limits.batch_bytes,
            heartbeat=limits.heartbeat_seconds,
            clock=self._around.clock,
            report=lambda event: self._post(event, stream),
        )
        self._stream = stream
        stream.start()

    @_carry_out.register
    def _(self, effect: do.RequestSnapshot) -> None:
        with writing(self._around.engine) as connection:
            (sync_id,) = snapshots.request(connection, self.owed.client, [self.owed.destination], effect.reason)
        self._post(happened.SnapshotRequested(sync_id, effect.reason))

    @_carry_out.register
    def _(self, effect: do.DiscardSnapshot) -> None:
        with writing(self._around.engine) as connection:
            snapshots.request(connection, self.owed.client, [self.owed.destination], effect.reason)

    @_carry_out.register
    def _(self, effect: do.WatchSnapshot) -> None:
        with reading(self._around.engine) as connection:
            found = snapshots.find(connection, effect.sync_id)
        if found is None:
            self._post(happened.SnapshotCancelled(effect.sync_id))
        else:
            self._post(_snapshot_event(found))

    @_carry_out.register
    def _(self, effect: do.TransferSnapshot) -> None:
        with reading(self._around.engine) as connection:
            found = snapshots.find(connection, effect.sync_id)
        if found is None or found.state is not SnapshotState.READY:
            self._post(happened.SnapshotCancelled(effect.sync_id))
            return
        # A commit of ours makes the application's earlier one durable, whatever it asked for; then it may leave.
        session_table.touch(self._around.engine, self.owed)
        self._assign(SnapshotWork(found, effect.after_row))

    @_carry_out.register
    def _(self, effect: do.MarkSnapshotApplied) -> None:
        with writing(self._around.engine) as connection:
            snapshots.mark_applied(connection, effect.sync_id)

    @_carry_out.register
    def _(self, effect: do.StreamLog) -> None:
        self._assign(LogWork(effect.position, effect.read_after))

    def _assign(self, work: LogWork | SnapshotWork | None) -> None:
        if self._stream is not None:
            self._stream.assign(work)

    @_carry_out.register
    def _(self, _effect: do.StopSending) -> None:
        self._assign(None)

    @_carry_out.register
    def _(self, _effect: do.Disconnect) -> None:
        self._disconnect()

    def _disconnect(self) -> None:
        stream, self._stream = self._stream, None
        sink, self._sink = self._sink, None
        if stream is not None:
            stream.close()
        if sink is not None:
            sink.close()
        if stream is not None:
            stream.join()

    @_carry_out.register
    def _(self, effect: do.RetryAfter) -> None:
        longest = self._around.limits.backoff.delay_seconds(effect.attempt, 0.0)
        delay = jittered(self._around.limits.slow_retry_seconds if effect.slow else longest)
        self._retry_at = self._around.clock.monotonic() + delay

    @_carry_out.register
    def _(self, effect: do.Report) -> None:
        self._log.info("session", state=effect.words.name, detail=effect.words.detail)

    @_carry_out.register(do.JoinLive)
    @_carry_out.register(do.ReadAlone)
    def _(self, _effect: do.JoinLive | do.ReadAlone) -> None:
        """The stream takes from the feed what is there, and finds out by itself what is not."""

    @_carry_out.register
    def _(self, effect: do.Ignored) -> None:
        self._log.debug("ignored", why=effect.why)


def _snapshot_event(found: Snapshot) -> Event | None:
    if found.finished:
        return happened.SnapshotCancelled(found.sync_id)
    if found.state is SnapshotState.READY:
        return happened.SnapshotReady(found.sync_id)
    if found.error:
        return happened.SnapshotAttemptFailed(found.sync_id, found.error)
    return None
