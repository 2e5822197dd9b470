"""The runner of one session: a thread that passes events to the pure machine and carries out its effects.

The machine decides, and the runner keeps the order of its effects. So durable writes come before frames.
"""

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from sqlalchemy import Engine

from lr_server.protocol import effects as do
from lr_server.protocol import events as happened
from lr_server.protocol.effects import Effect
from lr_server.protocol.events import Event, RefusalKind
from lr_server.protocol.machine import advance
from lr_server.protocol.negotiation import InitialSync, decide
from lr_server.protocol.states import (
    Idle,
    LogEntrySync,
    SessionStanding,
    SnapshotTransferring,
    State,
    Stopped,
    describe,
)
from lr_server.session import table as session_table
from lr_server.session.failures import event_for
from lr_server.session.history import sink_history, source_history, told_branches
from lr_server.session.inflight import Inflight
from lr_server.session.outgoing import Outgoing
from lr_server.session.stream import FrameSources, FrameStream, LogWork, SnapshotWork
from queues import send_snapshot
from queues.backoff import Backoff
from queues.clock import Clock, jittered
from queues.database.leases import Lease
from queues.database.transactions import reading, writing
from queues.errors import LrqError, PeerUnreachableError
from queues.logs import logger
from queues.names import SiteId
from queues.positions import Position
from queues.send_log.port import SessionKey
from queues.send_snapshot import SnapshotState, SnapshotSync
from queues.wire.replication_pb2 import NegotiateRequest, NegotiateResponse, SessionId
from queues.wire.replication_pb2 import Position as WirePosition
from sink.port import PROTOCOL, Sink

log = logger("lrq.session")


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """The limits of one session: frames in flight, heartbeat, stall and retry times."""

    window_frames: int
    window_bytes: int
    batch_bytes: int
    heartbeat_seconds: float
    stall_seconds: float
    slow_retry_seconds: float
    backoff: Backoff
    initial_sync: InitialSync


@dataclass(frozen=True, slots=True)
class SessionContext:
    """The objects and settings that all sessions of a server share."""

    engine: Engine
    site: SiteId
    lease: Lease
    clock: Clock
    limits: SessionLimits
    connect: Callable[[SiteId], Sink]
    on_fenced: Callable[[str], None]
    outgoing: Callable[[SessionKey], Outgoing]
    paths: Callable[[Outgoing], FrameSources]


class Session:
    """One session (source × destination × client), from `start` to `stop`."""

    def __init__(self, owed: SessionKey, context: SessionContext) -> None:
        self.owed = owed
        self._context = context
        self._state: State = Idle()
        self._events: queue.SimpleQueue[tuple[Event, FrameStream | None]] = queue.SimpleQueue()
        self._sink: Sink | None = None
        self._stream: FrameStream | None = None
        self._outgoing = context.outgoing(owed)
        self._retry_at: float | None = None
        self._told: SnapshotSync | None = None
        self._acked: Position | None = None
        self._applied_seq = 0
        self._shown: tuple[State, Position | None, int, SessionStanding] | None = None
        self._log = log.bind(client=owed.client, destination=owed.destination)
        self._thread = threading.Thread(
            target=self._run, name=f"lrq-session-{owed.client}-{owed.destination}", daemon=True
        )

    # --- called by the supervisor -----------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread, which begins to negotiate."""
        self._post(happened.Started())
        self._thread.start()

    def stop(self, *, lost: str | None = None) -> None:
        """Ask the session to end; *lost* is the reason if another server owns the site now. See `join`."""
        self._post(happened.StopRequested() if lost is None else happened.OwnershipLost(lost))

    def join(self) -> None:
        """Wait until the session's thread has ended."""
        if self._thread.is_alive():
            self._thread.join()

    def note_snapshot(self, newest: SnapshotSync | None) -> None:
        """Post the events of the newest snapshot request; the supervisor reads the requests of all sessions."""
        if newest is None or newest == self._told:
            return
        before, self._told = self._told, newest
        if not newest.finished and (before is None or before.sync_id != newest.sync_id):
            self._post(happened.SnapshotRequested(newest.sync_id, newest.reason))
        self._post(_snapshot_event(newest))

    def check_stall(self) -> None:
        """Break a connection whose sink has not answered for `stall_seconds`; the supervisor calls this."""
        stream = self._stream
        if stream is not None and stream.silent_seconds > self._context.limits.stall_seconds:
            stream.break_off(f"stalled: no acknowledgement for {self._context.limits.stall_seconds:g} s")

    @property
    def standing(self) -> SessionStanding:
        """The facts to save; the same object while nothing changes, so that frequent reads are cheap."""
        state, acked, applied_seq = self._state, self._acked, self._applied_seq
        shown = self._shown
        if shown is None or not (shown[0] is state and shown[1] is acked and shown[2] is applied_seq):
            rows = state.acked_row if isinstance(state, SnapshotTransferring) else 0
            self._shown = shown = state, acked, applied_seq, SessionStanding(describe(state), acked, applied_seq, rows)
        return shown[3]

    # --- the thread -------------------------------------------------------------------------------------------

    def _post(self, event: Event | None, stream: FrameStream | None = None) -> None:
        if event is not None:
            self._events.put((event, stream))

    def _run(self) -> None:
        while not isinstance(self._state, Stopped):
            event, stream = self._wait()
            if stream is not None and stream is not self._stream:
                continue
            self._take(event)

    def _wait(self) -> tuple[Event, FrameStream | None]:
        while True:
            pause = None
            if self._retry_at is not None:
                pause = max(self._retry_at - self._context.clock.monotonic(), 0.0)
            try:
                return self._events.get(timeout=pause)
            except queue.Empty:
                self._retry_at = None
                return happened.RetryDue(), None

    def _take(self, event: Event) -> None:
        if isinstance(event, happened.Refused) and event.kind is RefusalKind.STALE_LEADER:
            self._guarded(partial(self._context.on_fenced, event.reason))
        self._state, asked = advance(self._state, event)
        if isinstance(self._state, LogEntrySync):
            self._acked = self._state.acked
        for effect in asked:
            if not self._guarded(partial(self._carry_out, effect)):
                return

    def _guarded(self, act: Callable[[], None]) -> bool:
        """Call *act* and return True; after an error post its event, which breaks the connection, and return False."""
        try:
            act()
        except Exception as error:  # noqa: BLE001 - the top of the loop: the error is posted, and the session tries again
            if not isinstance(error, LrqError):
                self._log.exception("the session failed unexpectedly")
            self._post(event_for(error))
            return False
        return True

    # --- effects ----------------------------------------------------------------------------------------------

    def _carry_out(self, effect: Effect) -> None:  # noqa: C901 - one case an effect
        match effect:
            case do.Negotiate():
                self._negotiate()
            case do.RollBack(to=to):
                self._roll_back(to)
            case do.RequestSnapshot(reason=reason):
                self._post(happened.SnapshotRequested(self._request_snapshot(reason), reason))
            case do.DiscardSnapshot(reason=reason):
                self._request_snapshot(reason)
            case do.WatchSnapshot(sync_id=sync_id):
                self._watch_snapshot(sync_id)
            case do.TransferSnapshot(sync_id=sync_id, after_row=after_row):
                self._transfer_snapshot(sync_id, after_row)
            case do.MarkSnapshotApplied(sync_id=sync_id):
                self._mark_snapshot_applied(sync_id)
            case do.StreamLog(position=position, read_after=read_after):
                self._assign(LogWork(position, read_after))
            case do.StopSending():
                self._assign(None)
            case do.Disconnect():
                self._disconnect()
            case do.RetryAfter(attempt=attempt, slow=slow):
                self._retry_after(attempt, slow=slow)
            case do.Report(words=words):
                self._log.info("session", state=words.name, detail=words.detail)
            case do.Ignored(why=why):
                self._log.debug("ignored", why=why)
            case _:
                assert_never(effect)

    # --- effects on the connection ----------------------------------------------------------------------------

    def _negotiate(self) -> None:
        self._disconnect()
        answer = self._ask()
        if answer.HasField("refusal"):
            self._post(happened.Refused(RefusalKind(answer.refusal.kind), answer.refusal.reason))
            return
        if answer.site != self.owed.destination:
            words = f"site {answer.site!r} answers at the endpoint of {self.owed.destination!r}: correct `peers`"
            self._post(happened.Refused(RefusalKind.WRONG_SITE, words))
            return
        sink = sink_history(answer)
        self._applied_seq = answer.applied_seq
        source = source_history(self._context.engine, self.owed, sink)
        decision = decide(source, sink, initial_sync=self._context.limits.initial_sync)
        self._log.info("negotiated", decision=type(decision).__name__, reason=decision.reason)
        if sink.is_empty:
            # The sink may have lost its data, so trim and `wait_replicated` must not use its earlier acknowledgements.
            self._acked = sink.received
        self._open()
        self._post(happened.Negotiated(decision))

    def _roll_back(self, to: Position) -> None:
        self._disconnect()
        answer = self._ask(to)
        if answer.HasField("refusal"):
            self._post(happened.Refused(RefusalKind(answer.refusal.kind), answer.refusal.reason))
            return
        received = answer.received
        self._open()
        self._post(happened.RolledBack(Position(received.branch, received.seq, received.cut)))

    def _ask(self, rollback_to: Position | None = None) -> NegotiateResponse:
        if self._sink is None:
            self._sink = self._context.connect(self.owed.destination)
        request = NegotiateRequest(
            protocol=PROTOCOL, session=self._name(), branches=told_branches(self._context.engine)
        )
        if rollback_to is not None:
            request.rollback_to.CopyFrom(WirePosition(branch=rollback_to.branch, seq=rollback_to.seq))
        return self._sink.negotiate(request)

    def _name(self) -> SessionId:
        context = self._context
        return SessionId(
            source=context.site,
            sink=self.owed.destination,
            client=self.owed.client,
            generation=context.lease.generation,
        )

    def _open(self) -> None:
        limits = self._context.limits
        if self._sink is None:
            raise PeerUnreachableError("the connection was closed before it was used")
        stream = FrameStream(
            self._sink,
            self._name(),
            self._context.paths(self._outgoing),
            inflight=Inflight(
                max_frames=limits.window_frames, max_bytes=limits.window_bytes, clock=self._context.clock
            ),
            batch_bytes=limits.batch_bytes,
            heartbeat=limits.heartbeat_seconds,
            clock=self._context.clock,
            report=lambda event: self._post(event, stream),
        )
        self._stream = stream
        stream.start()

    def _assign(self, work: LogWork | SnapshotWork | None) -> None:
        if self._stream is not None:
            self._stream.assign(work)

    def _disconnect(self) -> None:
        stream, self._stream = self._stream, None
        sink, self._sink = self._sink, None
        if stream is not None:
            stream.close()
        if sink is not None:
            sink.close()
        if stream is not None:
            stream.join()

    def _retry_after(self, attempt: int, *, slow: bool) -> None:
        limits = self._context.limits
        delay = jittered(limits.slow_retry_seconds if slow else limits.backoff.delay_seconds(attempt))
        self._retry_at = self._context.clock.monotonic() + delay

    # --- effects on the snapshot ------------------------------------------------------------------------------

    def _request_snapshot(self, reason: str) -> str:
        """Replace every older request of this session; return the new `sync_id`."""
        with writing(self._context.engine) as connection:
            (sync_id,) = send_snapshot.request(connection, self.owed.client, [self.owed.destination], reason)
        return sync_id

    def _watch_snapshot(self, sync_id: str) -> None:
        found = self._find_snapshot(sync_id)
        self._post(happened.SnapshotCancelled(sync_id) if found is None else _snapshot_event(found))

    def _transfer_snapshot(self, sync_id: str, after_row: int) -> None:
        found = self._find_snapshot(sync_id)
        if found is None or found.state is not SnapshotState.READY:
            self._post(happened.SnapshotCancelled(sync_id))
            return
        # A durable commit makes the application's earlier commits durable too, before the snapshot is sent.
        session_table.touch(self._context.engine, self.owed)
        self._assign(SnapshotWork(found, after_row))

    def _find_snapshot(self, sync_id: str) -> SnapshotSync | None:
        with reading(self._context.engine) as connection:
            return send_snapshot.find(connection, sync_id)

    def _mark_snapshot_applied(self, sync_id: str) -> None:
        with writing(self._context.engine) as connection:
            send_snapshot.mark_applied(connection, sync_id)


def _snapshot_event(found: SnapshotSync) -> Event | None:
    if found.finished:
        return happened.SnapshotCancelled(found.sync_id)
    if found.state is SnapshotState.READY:
        return happened.SnapshotReady(found.sync_id)
    if found.error:
        return happened.SnapshotAttemptFailed(found.sync_id, found.error)
    return None
