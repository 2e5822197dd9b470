"""Draw the machine by running it: `python -m lr_server.protocol.diagram` prints it."""

import sys
from collections.abc import Iterator
from typing import Final

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
    PeerLost,
    RefusalKind,
    Refused,
    RetryDue,
    RolledBack,
    SnapshotApplied,
    SnapshotAttemptFailed,
    SnapshotCancelled,
    SnapshotReady,
    SnapshotRequested,
    SnapshotSent,
    SourceFailed,
    Started,
    Trimmed,
)
from lr_server.protocol.machine import advance
from lr_server.protocol.negotiation import (
    AwaitSnapshot,
    Cause,
    ConfirmSnapshot,
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
    WaitForApply,
)
from queues.positions import Position

_HERE: Final = Position("b", 1)
_THERE: Final = Position("b", 2)

_STATES: Final[tuple[State, ...]] = (
    Idle(),
    Negotiating(),
    RollingBack(_HERE, "why"),
    SnapshotRequesting("why"),
    SnapshotAwaiting("s", "why"),
    SnapshotTransferring("s", "why"),
    WaitForApply("s", "why"),
    LogEntrySync(_HERE),
    LogEntrySync(_HERE, Mode.LIVE),
    Draining(_HERE, _THERE.seq),
    Draining(_THERE, _THERE.seq, is_ending=True),
    Finished(_THERE.seq),
    BackingOff(1, "why"),
    Failed(1, "why"),
)

_EVENTS: Final[tuple[tuple[str, Event], ...]] = (
    ("started", Started()),
    ("retry due", RetryDue()),
    ("resume", Negotiated(Resume(_HERE, 1, "why"))),
    ("rollback", Negotiated(Rollback(_HERE, "why"))),
    ("rebuild", Negotiated(Rebuild(Cause.ORDERED, "why"))),
    ("await snapshot", Negotiated(AwaitSnapshot("s", "why"))),
    ("resume snapshot", Negotiated(ResumeSnapshot("s", 1, "why"))),
    ("confirm snapshot", Negotiated(ConfirmSnapshot("s", "why"))),
    ("rolled back", RolledBack(_HERE)),
    ("snapshot requested", SnapshotRequested("newer", "why")),
    ("snapshot ready", SnapshotReady("s")),
    ("snapshot cancelled", SnapshotCancelled("s")),
    ("attempt failed", SnapshotAttemptFailed("s", "why")),
    ("chunk acked", ChunkAcked("s", 1)),
    ("snapshot sent", SnapshotSent("s")),
    ("snapshot applied", SnapshotApplied("s", _HERE)),
    ("batch acked", BatchAcked(_THERE)),
    ("caught up", CaughtUp()),
    ("fell behind", FellBehind()),
    ("trimmed", Trimmed(1, 2)),
    ("end ordered", EndOrdered(_THERE.seq)),
    ("end acked", EndAcked()),
    ("end not taken", EndNotTaken("why")),
    ("gave up", GaveUp()),
    ("change wanted", ChangeWanted()),
    ("peer lost", PeerLost("why")),
    ("source failed", SourceFailed("why")),
    ("refused for now", Refused(RefusalKind.TRANSIENT, "why")),
    ("refused as corrupt", Refused(RefusalKind.CORRUPT, "why")),
    ("refused for good", Refused(RefusalKind.WRONG_SITE, "why")),
)


def diagram() -> str:
    """Return the machine as a Mermaid state diagram; a note names the events that end a session in every state."""
    lines = ["stateDiagram-v2", "    [*] --> Idle"]
    labels: dict[tuple[str, str], list[str]] = {}
    for origin, label, target in _edges():
        labels.setdefault((origin, target), []).append(label)
    lines += [f"    {origin} --> {target}: {', '.join(names)}" for (origin, target), names in labels.items()]
    lines += ["    note right of Idle: from every state, a stop or lost ownership leads to Stopped"]
    return "\n".join(lines) + "\n"


def _edges() -> Iterator[tuple[str, str, str]]:
    for state in _STATES:
        for label, event in _EVENTS:
            after, _ = advance(state, event)
            if after != state:
                yield _name(state), label, _name(after)


def _name(state: State) -> str:
    if isinstance(state, LogEntrySync):
        return "Live" if state.mode is Mode.LIVE else "CatchUp"
    if isinstance(state, Draining) and state.is_ending:
        return "Ending"
    return type(state).__name__


if __name__ == "__main__":
    sys.stdout.write(diagram())
