"""One session (source x destination x client) as a pure machine: `advance(state, event) -> (state, effects)`.

All decisions about a session's states are here; `lr_server.protocol.diagram` draws the machine. Every pair of a state
and an event has an outcome: an event without effect gives `Ignored` with the reason.

* A requested snapshot stops the log; once the snapshot is applied, the log continues after its base.
* The newest snapshot request wins, in every state.
* After a failure the session negotiates again; `decide` then skips everything that the sink has already.
"""

from dataclasses import replace
from typing import assert_never

from lr_server.protocol.effects import (
    DiscardSnapshot,
    Disconnect,
    Effect,
    Ignored,
    IgnoreReason,
    MarkSnapshotApplied,
    Negotiate,
    Report,
    RequestSnapshot,
    RetryAfter,
    RollBack,
    StopSending,
    StreamLog,
    TransferSnapshot,
    WatchSnapshot,
)
from lr_server.protocol.events import (
    BatchAcked,
    CaughtUp,
    ChunkAcked,
    Event,
    FellBehind,
    Negotiated,
    OwnershipLost,
    PeerLost,
    RefusalKind,
    Refused,
    RetryDue,
    RolledBack,
    SessionEvent,
    SnapshotApplied,
    SnapshotAttemptFailed,
    SnapshotCancelled,
    SnapshotReady,
    SnapshotRequested,
    SnapshotSent,
    SourceFailed,
    Started,
    StopRequested,
    Trimmed,
)
from lr_server.protocol.negotiation import (
    AwaitSnapshot,
    ConfirmSnapshot,
    Decision,
    Rebuild,
    Resume,
    ResumeSnapshot,
    Rollback,
)
from lr_server.protocol.states import (
    BackingOff,
    Failed,
    Idle,
    LogEntrySync,
    Mode,
    Negotiating,
    RollingBack,
    SnapshotAwaiting,
    SnapshotRequesting,
    SnapshotTransferring,
    State,
    Stopped,
    WaitForApply,
    describe,
)

Step = tuple[State, tuple[Effect, ...]]

_InSnapshotSync = SnapshotRequesting | SnapshotAwaiting | SnapshotTransferring | WaitForApply
_Connected = Negotiating | RollingBack | _InSnapshotSync | LogEntrySync
_Running = Idle | BackingOff | Failed | _Connected

_AnywhereEvent = Started | RetryDue | PeerLost | SourceFailed | Refused | Negotiated | RolledBack
_LogEvent = BatchAcked | Trimmed | FellBehind | CaughtUp


def advance(state: State, event: Event) -> Step:
    """Return the state after *event*, and the effects that the runner carries out, in their order."""
    after, effects = _next(state, event)
    words = describe(after)
    return after, effects if words == describe(state) else (*effects, Report(words))


def _next(state: State, event: Event) -> Step:
    if isinstance(state, Stopped):
        return _ignored(state, IgnoreReason.STOPPED)
    match event:
        case StopRequested():
            return Stopped("stopped on request"), (Disconnect(),)
        case OwnershipLost(reason=reason):
            return Stopped(reason), (Disconnect(),)
        case _:
            return _in_state(state, event)


def _in_state(state: _Running, event: SessionEvent) -> Step:
    match state:
        case Idle():
            return _idle(state, event)
        case Negotiating():
            return _negotiating(state, event)
        case BackingOff() | Failed():
            return _disconnected(state, event)
        case RollingBack():
            return _rolling_back(state, event)
        case SnapshotRequesting():
            return _snapshot_requesting(state, event)
        case SnapshotAwaiting():
            return _snapshot_awaiting(state, event)
        case SnapshotTransferring():
            return _snapshot_transferring(state, event)
        case WaitForApply():
            return _wait_for_apply(state, event)
        case LogEntrySync():
            return _log_entry_sync(state, event)
        case _:
            assert_never(state)


# --- without a connection -------------------------------------------------------------------------------------


def _idle(state: Idle, event: SessionEvent) -> Step:
    match event:
        case Started():
            return _negotiate(0)
        case (
            RetryDue() | PeerLost() | SourceFailed() | Refused() | Negotiated() | RolledBack() | SnapshotRequested()
            | SnapshotReady() | SnapshotCancelled() | SnapshotAttemptFailed() | ChunkAcked() | SnapshotSent()
            | SnapshotApplied() | BatchAcked() | Trimmed() | FellBehind() | CaughtUp()
        ):  # fmt: skip
            return _ignored(state, IgnoreReason.NOT_STARTED)
        case _:
            assert_never(event)


def _disconnected(state: BackingOff | Failed, event: SessionEvent) -> Step:
    match event:
        case RetryDue():
            return _negotiate(state.attempt)
        case Started():
            return _ignored(state, IgnoreReason.ALREADY_STARTED)
        case SnapshotRequested() | SnapshotReady() | SnapshotCancelled() | SnapshotAttemptFailed():
            return _ignored(state, IgnoreReason.FOUND_LATER)
        case (
            PeerLost() | SourceFailed() | Refused() | Negotiated() | RolledBack() | ChunkAcked() | SnapshotSent()
            | SnapshotApplied() | BatchAcked() | Trimmed() | FellBehind() | CaughtUp()
        ):  # fmt: skip
            return _ignored(state, IgnoreReason.NO_CONNECTION)
        case _:
            assert_never(event)


# --- agreeing with the sink -----------------------------------------------------------------------------------


def _negotiating(state: Negotiating, event: SessionEvent) -> Step:
    match event:
        case Negotiated(decision=decision):
            return _negotiate(state.attempt) if state.outdated else _follow(decision, state.attempt)
        case SnapshotRequested() if not state.outdated:
            # The request may be newer than the history that was read, so the decision may not include the request.
            return replace(state, outdated=True), ()
        case SnapshotRequested() | SnapshotReady() | SnapshotCancelled() | SnapshotAttemptFailed():
            return _ignored(state, IgnoreReason.FOUND_LATER)
        case (
            ChunkAcked() | SnapshotSent() | SnapshotApplied() | BatchAcked() | Trimmed() | FellBehind() | CaughtUp()
        ):  # fmt: skip
            return _ignored(state, IgnoreReason.NOTHING_SENT)
        case _:
            return _anywhere(state, event)


def _follow(decision: Decision, attempt: int) -> Step:
    match decision:
        case Resume(position=position, read_after=read_after):
            return LogEntrySync(position, attempt=attempt), (StreamLog(position, read_after),)
        case Rollback(position=position, reason=reason):
            return RollingBack(position, reason, attempt), (RollBack(position),)
        case Rebuild(reason=reason):
            return SnapshotRequesting(reason, attempt), (RequestSnapshot(reason),)
        case AwaitSnapshot(sync_id=sync_id, reason=reason):
            return _await_snapshot(sync_id, reason, attempt)
        case ResumeSnapshot(sync_id=sync_id, rows=rows, reason=reason):
            return SnapshotTransferring(sync_id, reason, rows, attempt), (TransferSnapshot(sync_id, rows),)
        case ConfirmSnapshot(sync_id=sync_id):
            return Negotiating(attempt), (MarkSnapshotApplied(sync_id), Negotiate())
        case _:
            assert_never(decision)


def _rolling_back(state: RollingBack, event: SessionEvent) -> Step:
    match event:
        case RolledBack(position=position) if position == state.to:
            return LogEntrySync(position, attempt=state.attempt), (StreamLog(position, position.seq),)
        case RolledBack(position=position):
            return _back_off(state, f"the sink went back to {position.seq} instead of {state.to.seq}")
        case SnapshotRequested(sync_id=sync_id, reason=reason):
            return _await_snapshot(sync_id, reason, state.attempt)
        case SnapshotReady() | SnapshotCancelled() | SnapshotAttemptFailed():
            return _ignored(state, IgnoreReason.NO_SNAPSHOT)
        case (
            ChunkAcked() | SnapshotSent() | SnapshotApplied() | BatchAcked() | Trimmed() | FellBehind() | CaughtUp()
        ):  # fmt: skip
            return _ignored(state, IgnoreReason.NOTHING_SENT)
        case _:
            return _anywhere(state, event)


# --- snapshot sync --------------------------------------------------------------------------------------------


def _snapshot_requesting(state: SnapshotRequesting, event: SessionEvent) -> Step:
    match event:
        case SnapshotRequested(sync_id=sync_id, reason=reason):
            return _await_snapshot(sync_id, reason, state.attempt)
        case SnapshotReady() | SnapshotCancelled() | SnapshotAttemptFailed():
            return _ignored(state, IgnoreReason.OTHER_SNAPSHOT)
        case ChunkAcked() | SnapshotSent() | SnapshotApplied():
            return _ignored(state, IgnoreReason.NOTHING_SENT)
        case _:
            return _aside_of_snapshot(state, event)


def _snapshot_awaiting(state: SnapshotAwaiting, event: SessionEvent) -> Step:
    match event:
        case SnapshotReady(sync_id=state.sync_id):
            transfer = SnapshotTransferring(state.sync_id, state.reason, attempt=state.attempt)
            return transfer, (TransferSnapshot(state.sync_id, 0),)
        case SnapshotRequested(sync_id=state.sync_id):
            return _ignored(state, IgnoreReason.SAME_SNAPSHOT)
        case SnapshotRequested(sync_id=sync_id, reason=reason):
            return _await_snapshot(sync_id, reason, state.attempt)
        case SnapshotCancelled(sync_id=state.sync_id):
            return _negotiate(state.attempt)
        case SnapshotAttemptFailed(sync_id=state.sync_id, reason=reason):
            return replace(state, trouble=reason), ()
        case SnapshotReady() | SnapshotCancelled() | SnapshotAttemptFailed():
            return _ignored(state, IgnoreReason.OTHER_SNAPSHOT)
        case ChunkAcked() | SnapshotSent() | SnapshotApplied():
            return _ignored(state, IgnoreReason.NOTHING_SENT)
        case _:
            return _aside_of_snapshot(state, event)


def _snapshot_transferring(state: SnapshotTransferring, event: SessionEvent) -> Step:
    match event:
        case ChunkAcked(sync_id=state.sync_id, row=row) if row > state.acked_row:
            return replace(state, acked_row=row, attempt=0), ()
        case ChunkAcked(sync_id=state.sync_id):
            return _ignored(state, IgnoreReason.ACKED_ALREADY)
        case SnapshotSent(sync_id=state.sync_id):
            return WaitForApply(state.sync_id, state.reason, state.attempt), ()
        case SnapshotReady(sync_id=state.sync_id) | SnapshotAttemptFailed(sync_id=state.sync_id):
            return _ignored(state, IgnoreReason.COMPLETED)
        case _:
            return _while_sent(state, event)


def _wait_for_apply(state: WaitForApply, event: SessionEvent) -> Step:
    match event:
        case Refused(kind=RefusalKind.CORRUPT, reason=reason):
            # The published snapshot itself is damaged, so sending it again would not help.
            words = f"the sink refused snapshot {state.sync_id}: {reason}"
            attempt = state.attempt + 1
            # An effect that fails ends the step, so the retry comes before the discard.
            effects = (Disconnect(), RetryAfter(attempt, slow=True), DiscardSnapshot(state.sync_id, words))
            return Failed(attempt, words), effects
        case ChunkAcked(sync_id=state.sync_id) | SnapshotSent(sync_id=state.sync_id):
            return _ignored(state, IgnoreReason.ALL_SENT)
        case SnapshotReady(sync_id=state.sync_id) | SnapshotAttemptFailed(sync_id=state.sync_id):
            return _ignored(state, IgnoreReason.COMPLETED)
        case _:
            return _while_sent(state, event)


def _while_sent(state: SnapshotTransferring | WaitForApply, event: SessionEvent) -> Step:
    match event:
        case SnapshotApplied(sync_id=state.sync_id, base=base):
            return LogEntrySync(base), (MarkSnapshotApplied(state.sync_id), StreamLog(base, base.seq))
        case SnapshotRequested(sync_id=state.sync_id):
            return _ignored(state, IgnoreReason.SAME_SNAPSHOT)
        case SnapshotRequested(sync_id=sync_id, reason=reason):
            return _await_snapshot(sync_id, reason, state.attempt, StopSending())
        case SnapshotCancelled(sync_id=state.sync_id):
            return _negotiate(state.attempt, StopSending())
        case (
            SnapshotReady() | SnapshotCancelled() | SnapshotAttemptFailed()
            | ChunkAcked() | SnapshotSent() | SnapshotApplied()
        ):  # fmt: skip
            return _ignored(state, IgnoreReason.OTHER_SNAPSHOT)
        case _:
            return _aside_of_snapshot(state, event)


def _aside_of_snapshot(state: _InSnapshotSync, event: _AnywhereEvent | _LogEvent) -> Step:
    match event:
        case BatchAcked() | Trimmed() | FellBehind() | CaughtUp():
            return _ignored(state, IgnoreReason.NO_LOG)
        case _:
            return _anywhere(state, event)


# --- log-entry sync -------------------------------------------------------------------------------------------


def _log_entry_sync(state: LogEntrySync, event: SessionEvent) -> Step:
    match event:
        case BatchAcked(position=position):
            if position == state.acked or position.seq < state.acked.seq:
                return _ignored(state, IgnoreReason.ACKED_ALREADY)
            return replace(state, acked=position, attempt=0), ()
        case CaughtUp() if state.mode is Mode.CATCH_UP:
            return replace(state, mode=Mode.LIVE), ()
        case FellBehind() if state.mode is Mode.LIVE:
            return replace(state, mode=Mode.CATCH_UP), ()
        case CaughtUp() | FellBehind():
            return _ignored(state, IgnoreReason.SAME_MODE)
        case Trimmed(requested=requested, oldest=oldest):
            # Only `decide` can request a snapshot: perhaps no trimmed entry was for this session.
            return _back_off(state, f"entries after {requested} are needed, but entries up to {oldest} are trimmed")
        case SnapshotRequested(sync_id=sync_id, reason=reason):
            return _await_snapshot(sync_id, reason, state.attempt, StopSending())
        case (
            SnapshotReady() | SnapshotCancelled() | SnapshotAttemptFailed()
            | ChunkAcked() | SnapshotSent() | SnapshotApplied()
        ):  # fmt: skip
            return _ignored(state, IgnoreReason.NO_SNAPSHOT)
        case _:
            return _anywhere(state, event)


# --- common to several states ---------------------------------------------------------------------------------


def _anywhere(state: _Connected, event: _AnywhereEvent) -> Step:
    match event:
        case PeerLost(error=reason) | SourceFailed(reason=reason):
            return _back_off(state, reason)
        case Refused():
            return _refused(state, event)
        case Negotiated():
            return _ignored(state, IgnoreReason.NOT_NEGOTIATING)
        case RolledBack():
            return _ignored(state, IgnoreReason.NOT_ROLLING_BACK)
        case Started():
            return _ignored(state, IgnoreReason.ALREADY_STARTED)
        case RetryDue():
            return _ignored(state, IgnoreReason.NO_RETRY)
        case _:
            assert_never(event)


def _ignored(state: State, why: IgnoreReason) -> Step:
    return state, (Ignored(why),)


def _negotiate(attempt: int, *before: Effect) -> Step:
    return Negotiating(attempt), (*before, Negotiate())


def _await_snapshot(sync_id: str, reason: str, attempt: int, *before: Effect) -> Step:
    return SnapshotAwaiting(sync_id, reason, attempt=attempt), (*before, WatchSnapshot(sync_id))


def _back_off(state: _Connected, reason: str) -> Step:
    attempt = state.attempt + 1
    return BackingOff(attempt, reason), (Disconnect(), RetryAfter(attempt))


def _refused(state: _Connected, refusal: Refused) -> Step:
    match refusal.kind:
        case RefusalKind.STALE_LEADER | RefusalKind.WRONG_SITE | RefusalKind.PROTOCOL | RefusalKind.TOO_LARGE:
            attempt = state.attempt + 1
            return Failed(attempt, refusal.reason), (Disconnect(), RetryAfter(attempt, slow=True))
        case (
            RefusalKind.UNSPECIFIED | RefusalKind.NO_STREAM_BEGIN | RefusalKind.GAP | RefusalKind.CORRUPT
            | RefusalKind.OTHER_SNAPSHOT | RefusalKind.TRANSIENT | RefusalKind.CONSUMED | RefusalKind.FULL
        ):  # fmt: skip
            return _back_off(state, refusal.reason)
        case _:
            assert_never(refusal.kind)
