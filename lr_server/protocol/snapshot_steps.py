"""The steps of snapshot sync: from the request of a snapshot to its application at the sink."""

from dataclasses import replace

from lr_server.protocol.effects import (
    DiscardSnapshot,
    Disconnect,
    IgnoreReason,
    MarkSnapshotApplied,
    RetryAfter,
    StopSending,
    StreamLog,
    TransferSnapshot,
)
from lr_server.protocol.events import (
    BatchAcked,
    CaughtUp,
    ChunkAcked,
    FellBehind,
    RefusalKind,
    Refused,
    SessionEvent,
    SnapshotApplied,
    SnapshotAttemptFailed,
    SnapshotCancelled,
    SnapshotReady,
    SnapshotRequested,
    SnapshotSent,
    Trimmed,
)
from lr_server.protocol.states import (
    Failed,
    LogEntrySync,
    SnapshotAwaiting,
    SnapshotRequesting,
    SnapshotTransferring,
    WaitForApply,
)
from lr_server.protocol.steps import (
    AnywhereEvent,
    InSnapshotSync,
    LogEvent,
    Step,
    anywhere,
    await_snapshot,
    ignored,
    negotiate,
)


def snapshot_requesting(state: SnapshotRequesting, event: SessionEvent) -> Step:
    """Wait for the request that this session has made."""
    match event:
        case SnapshotRequested(sync_id=sync_id, reason=reason):
            return await_snapshot(sync_id, reason, state.attempt)
        case SnapshotReady() | SnapshotCancelled() | SnapshotAttemptFailed():
            return ignored(state, IgnoreReason.OTHER_SNAPSHOT)
        case ChunkAcked() | SnapshotSent() | SnapshotApplied():
            return ignored(state, IgnoreReason.NOTHING_SENT)
        case _:
            return _not_about_snapshots(state, event)


def snapshot_awaiting(state: SnapshotAwaiting, event: SessionEvent) -> Step:
    """Send the snapshot once it has rows to send."""
    match event:
        case SnapshotReady(sync_id=state.sync_id):
            transfer = SnapshotTransferring(state.sync_id, state.reason, attempt=state.attempt)
            return transfer, (TransferSnapshot(state.sync_id),)
        case SnapshotRequested(sync_id=state.sync_id):
            return ignored(state, IgnoreReason.SAME_SNAPSHOT)
        case SnapshotRequested(sync_id=sync_id, reason=reason):
            return await_snapshot(sync_id, reason, state.attempt)
        case SnapshotCancelled(sync_id=state.sync_id):
            return negotiate(state.attempt)
        case SnapshotAttemptFailed(sync_id=state.sync_id, reason=reason):
            return replace(state, trouble=reason), ()
        case SnapshotReady() | SnapshotCancelled() | SnapshotAttemptFailed():
            return ignored(state, IgnoreReason.OTHER_SNAPSHOT)
        case ChunkAcked() | SnapshotSent() | SnapshotApplied():
            return ignored(state, IgnoreReason.NOTHING_SENT)
        case _:
            return _not_about_snapshots(state, event)


def snapshot_transferring(state: SnapshotTransferring, event: SessionEvent) -> Step:
    """Send the rows of the snapshot."""
    match event:
        case ChunkAcked(sync_id=state.sync_id, row=row) if row > state.acked_row:
            return replace(state, acked_row=row, attempt=0), ()
        case ChunkAcked(sync_id=state.sync_id):
            return ignored(state, IgnoreReason.ACKED_ALREADY)
        case SnapshotSent(sync_id=state.sync_id):
            return WaitForApply(state.sync_id, state.reason, state.attempt), ()
        case SnapshotReady(sync_id=state.sync_id) | SnapshotAttemptFailed(sync_id=state.sync_id):
            return ignored(state, IgnoreReason.COMPLETED)
        case _:
            return _while_sent(state, event)


def wait_for_apply(state: WaitForApply, event: SessionEvent) -> Step:
    """Wait until the sink has applied the snapshot, then send the log after its base."""
    match event:
        case Refused(kind=RefusalKind.CORRUPT, reason=reason):
            # The published snapshot itself is damaged, so sending it again would not help.
            words = f"the sink refused snapshot {state.sync_id}: {reason}"
            attempt = state.attempt + 1
            # An effect that fails ends the step, so the retry comes before the discard.
            effects = (Disconnect(), RetryAfter(attempt, slow=True), DiscardSnapshot(words))
            return Failed(attempt, words), effects
        case ChunkAcked(sync_id=state.sync_id) | SnapshotSent(sync_id=state.sync_id):
            return ignored(state, IgnoreReason.ALL_SENT)
        case SnapshotReady(sync_id=state.sync_id) | SnapshotAttemptFailed(sync_id=state.sync_id):
            return ignored(state, IgnoreReason.COMPLETED)
        case _:
            return _while_sent(state, event)


def _while_sent(state: SnapshotTransferring | WaitForApply, event: SessionEvent) -> Step:
    """Answer an event of a snapshot whose rows are being sent, or have been."""
    match event:
        case SnapshotApplied(sync_id=state.sync_id, base=base):
            return LogEntrySync(base), (MarkSnapshotApplied(state.sync_id), StreamLog(base, base.seq))
        case SnapshotRequested(sync_id=state.sync_id):
            return ignored(state, IgnoreReason.SAME_SNAPSHOT)
        case SnapshotRequested(sync_id=sync_id, reason=reason):
            return await_snapshot(sync_id, reason, state.attempt, StopSending())
        case SnapshotCancelled(sync_id=state.sync_id):
            return negotiate(state.attempt, StopSending())
        case (
            SnapshotReady() | SnapshotCancelled() | SnapshotAttemptFailed()
            | ChunkAcked() | SnapshotSent() | SnapshotApplied()
        ):  # fmt: skip
            return ignored(state, IgnoreReason.OTHER_SNAPSHOT)
        case _:
            return _not_about_snapshots(state, event)


def _not_about_snapshots(state: InSnapshotSync, event: AnywhereEvent | LogEvent) -> Step:
    """Answer an event of the log, which is not sent now, or one that means the same in every state."""
    match event:
        case BatchAcked() | Trimmed() | FellBehind() | CaughtUp():
            return ignored(state, IgnoreReason.NO_LOG)
        case _:
            return anywhere(state, event)
