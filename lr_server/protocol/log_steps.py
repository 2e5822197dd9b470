"""The steps of log-entry sync, and of the drain of a link that ends."""

from dataclasses import replace

from lr_server.protocol.effects import Disconnect, Effect, EndStream, IgnoreReason, Leave, MarkFinished, StopSending
from lr_server.protocol.events import (
    BatchAcked,
    CaughtUp,
    ChangeWanted,
    ChunkAcked,
    EndAcked,
    EndNotTaken,
    EndOrdered,
    FellBehind,
    SessionEvent,
    SnapshotApplied,
    SnapshotAttemptFailed,
    SnapshotCancelled,
    SnapshotReady,
    SnapshotRequested,
    SnapshotSent,
    Trimmed,
)
from lr_server.protocol.states import Draining, Finished, LogEntrySync, Mode
from lr_server.protocol.steps import SendingLog, Step, anywhere, await_snapshot, back_off, ignored, negotiate


def log_entry_sync(state: LogEntrySync, event: SessionEvent) -> Step:
    """Send the entries of the log."""
    match event:
        case EndOrdered(end=end, order=order):
            return _drain(Draining(state.acked, end, state.mode, state.attempt, order=order))
        case ChangeWanted():
            return negotiate(state.attempt, Leave())
        case _:
            return _sending_log(state, event)


def draining(state: Draining, event: SessionEvent) -> Step:
    """Send the last entries of a link that ends, then the end of the stream."""
    match event:
        case EndOrdered(end=state.end, order=state.order):
            return ignored(state, IgnoreReason.SAME_END)
        case EndOrdered() if state.is_ending:
            # The link has begun again meanwhile, and the log must go on before its next end.
            return negotiate(state.attempt, StopSending())
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


def _sending_log(state: SendingLog, event: SessionEvent) -> Step:
    """Answer an event that means the same with and without an end of the link."""
    match event:
        case BatchAcked(position=position):
            if position == state.acked or position.seq < state.acked.seq:
                return ignored(state, IgnoreReason.ACKED_ALREADY)
            return replace(state, acked=position, attempt=0), ()
        case CaughtUp() if state.mode is Mode.CATCH_UP:
            return replace(state, mode=Mode.LIVE), ()
        case FellBehind() if state.mode is Mode.LIVE:
            return replace(state, mode=Mode.CATCH_UP), ()
        case CaughtUp() | FellBehind():
            return ignored(state, IgnoreReason.SAME_MODE)
        case Trimmed(requested=requested, oldest=oldest):
            # Only `decide` can request a snapshot: perhaps no trimmed entry was for this session.
            return back_off(state, f"entries after {requested} are needed, but entries up to {oldest} are trimmed")
        case SnapshotRequested(sync_id=sync_id, reason=reason):
            return await_snapshot(sync_id, reason, state.attempt, StopSending())
        case (
            SnapshotReady() | SnapshotCancelled() | SnapshotAttemptFailed()
            | ChunkAcked() | SnapshotSent() | SnapshotApplied()
        ):  # fmt: skip
            return ignored(state, IgnoreReason.NO_SNAPSHOT)
        case _:
            return anywhere(state, event)
