"""One session (source x destination x client) as a pure machine: `advance(state, event) -> (state, effects)`.

Here are the states without a connection; `negotiation_steps`, `snapshot_steps` and `log_steps` have the connected ones.
Every pair of a state and an event has an outcome: an event without effect gives `Ignored` with the reason.
`lr_server.protocol.diagram` draws the machine.

* A requested snapshot stops the log; once the snapshot is applied, the log continues after its base.
* The newest snapshot request wins, in every state.
* After a failure the session negotiates again; `decide` then skips everything that the sink has already.
* A link that has ended is drained: all its entries, then the end of the stream, then nothing more.
"""

from typing import assert_never

from lr_server.protocol.effects import Disconnect, IgnoreReason, Report
from lr_server.protocol.events import (
    BatchAcked,
    CaughtUp,
    ChangeWanted,
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
from lr_server.protocol.log_steps import draining, log_entry_sync
from lr_server.protocol.negotiation_steps import negotiating, rolling_back
from lr_server.protocol.snapshot_steps import (
    snapshot_awaiting,
    snapshot_requesting,
    snapshot_transferring,
    wait_for_apply,
)
from lr_server.protocol.states import (
    BackingOff,
    Draining,
    Failed,
    Finished,
    Idle,
    LogEntrySync,
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
from lr_server.protocol.steps import Connected, Step, ignored, negotiate

_Running = Idle | BackingOff | Failed | Finished | Connected


def advance(state: State, event: Event) -> Step:
    """Return the state after *event*, and the effects that the runner carries out, in their order."""
    after, effects = _next(state, event)
    words = describe(after)
    return after, effects if words == describe(state) else (*effects, Report(words))


def _next(state: State, event: Event) -> Step:
    if isinstance(state, Stopped):
        return ignored(state, IgnoreReason.STOPPED)
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
            return negotiating(state, event)
        case BackingOff() | Failed():
            return _disconnected(state, event)
        case RollingBack():
            return rolling_back(state, event)
        case SnapshotRequesting():
            return snapshot_requesting(state, event)
        case SnapshotAwaiting():
            return snapshot_awaiting(state, event)
        case SnapshotTransferring():
            return snapshot_transferring(state, event)
        case WaitForApply():
            return wait_for_apply(state, event)
        case LogEntrySync():
            return log_entry_sync(state, event)
        case Draining():
            return draining(state, event)
        case Finished():
            return ignored(state, IgnoreReason.FINISHED)
        case _:
            assert_never(state)


def _idle(state: Idle, event: SessionEvent) -> Step:
    match event:
        case Started():
            return negotiate(0)
        case (
            RetryDue() | PeerLost() | SourceFailed() | Refused() | Negotiated() | RolledBack() | SnapshotRequested()
            | SnapshotReady() | SnapshotCancelled() | SnapshotAttemptFailed() | ChunkAcked() | SnapshotSent()
            | SnapshotApplied() | BatchAcked() | Trimmed() | FellBehind() | CaughtUp()
            | EndOrdered() | EndAcked() | EndNotTaken() | GaveUp() | ChangeWanted()
        ):  # fmt: skip
            return ignored(state, IgnoreReason.NOT_STARTED)
        case _:
            assert_never(event)


def _disconnected(state: BackingOff | Failed, event: SessionEvent) -> Step:
    match event:
        case RetryDue():
            return negotiate(state.attempt, failure=state.reason)
        case GaveUp():
            return _give_up(state), ()
        case EndOrdered():
            return ignored(state, IgnoreReason.END_LATER)
        case Started():
            return ignored(state, IgnoreReason.ALREADY_STARTED)
        case SnapshotRequested() | SnapshotReady() | SnapshotCancelled() | SnapshotAttemptFailed():
            return ignored(state, IgnoreReason.FOUND_LATER)
        case (
            PeerLost() | SourceFailed() | Refused() | Negotiated() | RolledBack() | ChunkAcked() | SnapshotSent()
            | SnapshotApplied() | BatchAcked() | Trimmed() | FellBehind() | CaughtUp() | EndAcked() | EndNotTaken()
            | ChangeWanted()
        ):  # fmt: skip
            return ignored(state, IgnoreReason.NO_CONNECTION)
        case _:
            assert_never(event)


def _give_up(state: BackingOff | Failed) -> Failed:
    return Failed(state.attempt, f"no further try after {state.attempt} failures: {state.reason}", is_final=True)
