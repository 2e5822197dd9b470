"""One session (source x destination x client) as a pure machine: `advance(state, event) -> (state, effects)`.

All decisions about a session's states are here; `lr_server.protocol.diagram` draws the machine. Every pair of a state
and an event has an outcome: an event without effect gives `Ignored` with the reason.

* A requested snapshot stops the log; once the snapshot is applied, the log continues after its base.
* The newest snapshot request wins, in every state.
* After a failure the session negotiates again; `decide` then skips everything that the sink has already.
* A link that has ended is drained: all its entries, then the end of the stream, then nothing more.
"""

from dataclasses import replace
from typing import assert_never

from lr_server.protocol.effects import (
    DiscardSnapshot,
    Disconnect,
    Effect,
    EndStream,
    Ignored,
    IgnoreReason,
    MarkFinished,
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
    EndAcked,
    EndNotTaken,
    EndOrdered,
    Event,
    FellBehind,
    GaveUp,
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
    Draining,
    Failed,
    Finished,
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
_SendingLog = LogEntrySync | Draining
_Connected = Negotiating | RollingBack | _InSnapshotSync | _SendingLog
_Running = Idle | BackingOff | Failed | Finished | _Connected

_AnywhereEvent = (
    Started | RetryDue | GaveUp | PeerLost | SourceFailed | Refused | Negotiated | RolledBack
    | EndOrdered | EndAcked | EndNotTaken
)  # fmt: skip
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


def _in_state(state: _Running, event: SessionEvent) -> Step:  # noqa: C901 - one case a state
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
        case Draining():
            return _draining(state, event)
        case Finished():
            return _ignored(state, IgnoreReason.FINISHED)
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
            | EndOrdered() | EndAcked() | EndNotTaken() | GaveUp()
        ):  # fmt: skip
            return _ignored(state, IgnoreReason.NOT_STARTED)
        case _:
            assert_never(event)


def _disconnected(state: BackingOff | Failed, event: SessionEvent) -> Step:
    match event:
        case RetryDue():
            return _negotiate(state.attempt)
        case GaveUp():
            return _give_up(state), ()
        case EndOrdered():
            return _ignored(state, IgnoreReason.END_LATER)
        case Started():
            return _ignored(state, IgnoreReason.ALREADY_STARTED)
        case SnapshotRequested() | SnapshotReady() | SnapshotCancelled() | SnapshotAttemptFailed():
            return _ignored(state, IgnoreReason.FOUND_LATER)
        case (
            PeerLost() | SourceFailed() | Refused() | Negotiated() | RolledBack() | ChunkAcked() | SnapshotSent()
            | SnapshotApplied() | BatchAcked() | Trimmed() | FellBehind() | CaughtUp() | EndAcked() | EndNotTaken()
        ):  # fmt: skip
            return _ignored(state, IgnoreReason.NO_CONNECTION)
        case _:
            assert_never(event)


def _give_up(state: BackingOff | Failed) -> Failed:
    return Failed(state.attempt, f"no further try after {state.attempt} failures: {state.reason}", is_final=True)


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
        case EndOrdered(end=end, order=order):
            return _drain(Draining(state.acked, end, state.mode, state.attempt, order=order))
        case _:
            return _sending_log(state, event)


def _draining(state: Draining, event: SessionEvent) -> Step:
    match event:
        case EndOrdered(end=state.end, order=state.order):
            return _ignored(state, IgnoreReason.SAME_END)
        case EndOrdered() if state.is_ending:
            # The link has begun again meanwhile, and the log must go on before its next end.
            return _negotiate(state.attempt, StopSending())
        case EndOrdered(end=end, order=order):
            return _drain(replace(state, end=end, order=order))
        case EndAcked() if state.is_ending:
            return Finished(state.end), (MarkFinished(state.order), Disconnect())
        case EndNotTaken(reason=reason) if state.is_ending:
            return replace(state, trouble=reason), ()
        case BatchAcked():
            after, effects = _sending_log(state, event)
            return _drain(after, *effects) if isinstance(after, Draining) and after != state else (after, effects)
        case _:
            return _sending_log(state, event)


def _drain(state: Draining, *before: Effect) -> Step:
    """Send the end of the stream once, after the acknowledgement of the last entry."""
    if state.acked.seq < state.end or state.is_ending:
        return state, before
    return replace(state, is_ending=True), (*before, EndStream())


def _sending_log(state: _SendingLog, event: SessionEvent) -> Step:
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
        case RetryDue() | GaveUp():
            return _ignored(state, IgnoreReason.NO_RETRY)
        case EndOrdered():
            return _ignored(state, IgnoreReason.END_LATER)
        case EndAcked() | EndNotTaken():
            return _ignored(state, IgnoreReason.NO_END)
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
