"""One step of the machine, and the steps that several states share."""

from typing import assert_never

from lr_server.protocol.effects import Disconnect, Effect, Ignored, IgnoreReason, Negotiate, RetryAfter, WatchSnapshot
from lr_server.protocol.events import (
    BatchAcked,
    CaughtUp,
    ChangeWanted,
    EndAcked,
    EndNotTaken,
    EndOrdered,
    FellBehind,
    GaveUp,
    Negotiated,
    PeerLost,
    RefusalKind,
    Refused,
    RetryDue,
    RolledBack,
    SourceFailed,
    Started,
    Trimmed,
)
from lr_server.protocol.states import (
    BackingOff,
    Draining,
    Failed,
    LogEntrySync,
    Negotiating,
    RollingBack,
    SnapshotAwaiting,
    SnapshotRequesting,
    SnapshotTransferring,
    State,
    WaitForApply,
)

Step = tuple[State, tuple[Effect, ...]]

InSnapshotSync = SnapshotRequesting | SnapshotAwaiting | SnapshotTransferring | WaitForApply
SendingLog = LogEntrySync | Draining
Connected = Negotiating | RollingBack | InSnapshotSync | SendingLog

#: The events that `anywhere` answers; each connected state answers all other events itself.
AnywhereEvent = (
    Started | RetryDue | GaveUp | PeerLost | SourceFailed | Refused | Negotiated | RolledBack
    | EndOrdered | EndAcked | EndNotTaken | ChangeWanted
)  # fmt: skip
LogEvent = BatchAcked | Trimmed | FellBehind | CaughtUp


def anywhere(state: Connected, event: AnywhereEvent) -> Step:
    """Answer an event that means the same in every connected state."""
    match event:
        case PeerLost(error=reason) | SourceFailed(reason=reason):
            return back_off(state, reason)
        case Refused():
            return _refused(state, event)
        case Negotiated():
            return ignored(state, IgnoreReason.NOT_NEGOTIATING)
        case RolledBack():
            return ignored(state, IgnoreReason.NOT_ROLLING_BACK)
        case Started():
            return ignored(state, IgnoreReason.ALREADY_STARTED)
        case RetryDue() | GaveUp():
            return ignored(state, IgnoreReason.NO_RETRY)
        case EndOrdered():
            return ignored(state, IgnoreReason.END_LATER)
        case EndAcked() | EndNotTaken():
            return ignored(state, IgnoreReason.NO_END)
        case ChangeWanted():
            return ignored(state, IgnoreReason.NO_CHANGE)
        case _:
            assert_never(event)


def ignored(state: State, why: IgnoreReason) -> Step:
    """Stay in *state*; the effect tells *why* the event changes nothing."""
    return state, (Ignored(why),)


def negotiate(attempt: int, *before: Effect, failure: str = "") -> Step:
    """Negotiate after *attempt* failures in a row, once the effects *before* are carried out.

    *failure* is the reason of the last one.
    """
    return Negotiating(attempt, failure=failure), (*before, Negotiate())


def await_snapshot(sync_id: str, reason: str, attempt: int, *before: Effect) -> Step:
    """Wait for the snapshot *sync_id*, once the effects *before* are carried out."""
    return SnapshotAwaiting(sync_id, reason, attempt=attempt), (*before, WatchSnapshot(sync_id))


def back_off(state: Connected, reason: str) -> Step:
    """Disconnect, and try again after a delay."""
    attempt = state.attempt + 1
    return BackingOff(attempt, reason), (Disconnect(), RetryAfter(attempt))


def _refused(state: Connected, refusal: Refused) -> Step:
    match refusal.kind:
        case RefusalKind.STALE_LEADER | RefusalKind.WRONG_SITE | RefusalKind.PROTOCOL | RefusalKind.TOO_LARGE:
            attempt = state.attempt + 1
            return Failed(attempt, refusal.reason), (Disconnect(), RetryAfter(attempt, slow=True))
        case (
            RefusalKind.UNSPECIFIED | RefusalKind.NO_STREAM_BEGIN | RefusalKind.GAP | RefusalKind.CORRUPT
            | RefusalKind.OTHER_SNAPSHOT | RefusalKind.TRANSIENT | RefusalKind.CONSUMED | RefusalKind.FULL
        ):  # fmt: skip
            return back_off(state, refusal.reason)
        case _:
            assert_never(refusal.kind)
