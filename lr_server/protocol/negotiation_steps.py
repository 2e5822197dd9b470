"""The steps of a session that agrees with its sink: the negotiation, and a rollback of the sink."""

from dataclasses import replace
from typing import assert_never

from lr_server.protocol.effects import (
    IgnoreReason,
    MarkSnapshotApplied,
    Negotiate,
    RequestSnapshot,
    RollBack,
    StreamLog,
    TransferSnapshot,
)
from lr_server.protocol.events import (
    BatchAcked,
    CaughtUp,
    ChunkAcked,
    FellBehind,
    Negotiated,
    RolledBack,
    SessionEvent,
    SnapshotApplied,
    SnapshotAttemptFailed,
    SnapshotCancelled,
    SnapshotReady,
    SnapshotRequested,
    SnapshotSent,
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
from lr_server.protocol.states import LogEntrySync, Negotiating, RollingBack, SnapshotRequesting, SnapshotTransferring
from lr_server.protocol.steps import Step, anywhere, await_snapshot, back_off, ignored, negotiate


def negotiating(state: Negotiating, event: SessionEvent) -> Step:
    """Follow the decision of the negotiation."""
    match event:
        case Negotiated(decision=decision):
            return negotiate(state.attempt) if state.outdated else _follow(decision, state.attempt)
        case SnapshotRequested() if not state.outdated:
            # The request may be newer than the history that was read, so the decision may not include the request.
            return replace(state, outdated=True), ()
        case SnapshotRequested() | SnapshotReady() | SnapshotCancelled() | SnapshotAttemptFailed():
            return ignored(state, IgnoreReason.FOUND_LATER)
        case (
            ChunkAcked() | SnapshotSent() | SnapshotApplied() | BatchAcked() | Trimmed() | FellBehind() | CaughtUp()
        ):  # fmt: skip
            return ignored(state, IgnoreReason.NOTHING_SENT)
        case _:
            return anywhere(state, event)


def _follow(decision: Decision, attempt: int) -> Step:
    match decision:
        case Resume(position=position, read_after=read_after):
            return LogEntrySync(position, attempt=attempt), (StreamLog(position, read_after),)
        case Rollback(position=position, reason=reason):
            return RollingBack(position, reason, attempt), (RollBack(position),)
        case Rebuild(reason=reason):
            return SnapshotRequesting(reason, attempt), (RequestSnapshot(reason),)
        case AwaitSnapshot(sync_id=sync_id, reason=reason):
            return await_snapshot(sync_id, reason, attempt)
        case ResumeSnapshot(sync_id=sync_id, rows=rows, reason=reason):
            return SnapshotTransferring(sync_id, reason, rows, attempt), (TransferSnapshot(sync_id),)
        case ConfirmSnapshot(sync_id=sync_id):
            return Negotiating(attempt), (MarkSnapshotApplied(sync_id), Negotiate())
        case _:
            assert_never(decision)


def rolling_back(state: RollingBack, event: SessionEvent) -> Step:
    """Continue the log once the sink has gone back."""
    match event:
        case RolledBack(position=position) if position == state.to:
            return LogEntrySync(position, attempt=state.attempt), (StreamLog(position, position.seq),)
        case RolledBack(position=position):
            return back_off(state, f"the sink went back to {position.seq} instead of {state.to.seq}")
        case SnapshotRequested(sync_id=sync_id, reason=reason):
            return await_snapshot(sync_id, reason, state.attempt)
        case SnapshotReady() | SnapshotCancelled() | SnapshotAttemptFailed():
            return ignored(state, IgnoreReason.NO_SNAPSHOT)
        case (
            ChunkAcked() | SnapshotSent() | SnapshotApplied() | BatchAcked() | Trimmed() | FellBehind() | CaughtUp()
        ):  # fmt: skip
            return ignored(state, IgnoreReason.NOTHING_SENT)
        case _:
            return anywhere(state, event)
