"""All pairs of states and events, and the declared outcome of each pair."""

from lr_server.protocol.effects import IgnoreReason
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
    StopRequested,
    Trimmed,
)
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
    Stopped,
    WaitForApply,
)
from queues.positions import Position

HERE = Position("b", 100)
BEFORE = Position("b", 90)
BEYOND = Position("b", 110)
OURS, OTHER = "ours", "other"

STATES: dict[str, State] = {
    "idle": Idle(),
    "negotiating": Negotiating(attempt=2),
    "outdated": Negotiating(attempt=2, outdated=True),
    "rolling back": RollingBack(HERE, "why", attempt=2),
    "requesting": SnapshotRequesting("why", attempt=2),
    "awaiting": SnapshotAwaiting(OURS, "why", attempt=2),
    "transferring": SnapshotTransferring(OURS, "why", acked_row=5, attempt=2),
    "wait for apply": WaitForApply(OURS, "why", attempt=2),
    "catch-up": LogEntrySync(HERE, attempt=2),
    "live": LogEntrySync(HERE, Mode.LIVE, attempt=2),
    "draining": Draining(HERE, 105, attempt=2),
    "draining live": Draining(HERE, 120, Mode.LIVE, attempt=2),
    "ending": Draining(HERE, 100, attempt=2, is_ending=True),
    "finished": Finished(100),
    "backing off": BackingOff(2, "why"),
    "failed": Failed(2, "why"),
    "stopped": Stopped("why"),
}

EVENTS: dict[str, Event] = {
    "started": Started(),
    "stop requested": StopRequested(),
    "ownership lost": OwnershipLost("why"),
    "retry due": RetryDue(),
    "peer lost": PeerLost("why"),
    "source failed": SourceFailed("why"),
    **{f"refused {kind.name}": Refused(kind, "why") for kind in RefusalKind},
    "decided resume": Negotiated(Resume(HERE, 100, "why")),
    "decided rollback": Negotiated(Rollback(BEFORE, "why")),
    "decided rebuild": Negotiated(Rebuild(Cause.TRIMMED, "why")),
    "decided await": Negotiated(AwaitSnapshot(OURS, "why")),
    "decided transfer": Negotiated(ResumeSnapshot(OURS, 7, "why")),
    "decided confirm": Negotiated(ConfirmSnapshot(OURS, "why")),
    "rolled back": RolledBack(HERE),
    "rolled back elsewhere": RolledBack(BEFORE),
    "ours requested": SnapshotRequested(OURS, "why"),
    "other requested": SnapshotRequested(OTHER, "why"),
    "ours ready": SnapshotReady(OURS),
    "other ready": SnapshotReady(OTHER),
    "ours cancelled": SnapshotCancelled(OURS),
    "other cancelled": SnapshotCancelled(OTHER),
    "ours failed": SnapshotAttemptFailed(OURS, "why"),
    "other failed": SnapshotAttemptFailed(OTHER, "why"),
    "our row acked": ChunkAcked(OURS, 6),
    "our old row acked": ChunkAcked(OURS, 5),
    "other row acked": ChunkAcked(OTHER, 6),
    "ours sent": SnapshotSent(OURS),
    "other sent": SnapshotSent(OTHER),
    "ours applied": SnapshotApplied(OURS, BEYOND),
    "other applied": SnapshotApplied(OTHER, BEYOND),
    "batch acked": BatchAcked(BEYOND),
    "same batch acked": BatchAcked(HERE),
    "old batch acked": BatchAcked(BEFORE),
    "trimmed": Trimmed(100, 110),
    "fell behind": FellBehind(),
    "caught up": CaughtUp(),
    "early end": EndOrdered(100),
    "end": EndOrdered(105),
    "late end": EndOrdered(120),
    "end again": EndOrdered(105, 1),
    "end acked": EndAcked(),
    "end not taken": EndNotTaken("why"),
    "gave up": GaveUp(),
    "change wanted": ChangeWanted(),
}

_FOR_GOOD = tuple(f"refused {kind}" for kind in ("STALE_LEADER", "WRONG_SITE", "PROTOCOL", "TOO_LARGE"))
_FOR_NOW = tuple(
    f"refused {kind}"
    for kind in ("UNSPECIFIED", "NO_STREAM_BEGIN", "GAP", "OTHER_SNAPSHOT", "TRANSIENT", "CONSUMED", "CORRUPT", "FULL")
)
_REFUSED = (*_FOR_GOOD, *_FOR_NOW)
_DECIDED = tuple(f"decided {what}" for what in ("resume", "rollback", "rebuild", "await", "transfer", "confirm"))
_ROLLED_BACK = ("rolled back", "rolled back elsewhere")
_REQUESTED = ("ours requested", "other requested")
_OUR_NEWS = ("ours ready", "ours cancelled", "ours failed")
_OTHER_NEWS = ("other ready", "other cancelled", "other failed")
_OUR_TRANSFER = ("our row acked", "our old row acked", "ours sent", "ours applied")
_OTHER_TRANSFER = ("other row acked", "other sent", "other applied")
_TRANSFER = (*_OUR_TRANSFER, *_OTHER_TRANSFER)
_ACKS = ("batch acked", "same batch acked", "old batch acked")
_READING = ("trimmed", "fell behind", "caught up")
_ENDS = ("early end", "end", "late end", "end again")
_END_ANSWERS = ("end acked", "end not taken")

_ENDING = {"stop requested": "stopped: Disconnect", "ownership lost": "stopped: Disconnect"}
_BREAKING = {
    "peer lost": "backing off: Disconnect, RetryAfter(3)",
    "source failed": "backing off: Disconnect, RetryAfter(3)",
    **dict.fromkeys(_FOR_NOW, "backing off: Disconnect, RetryAfter(3)"),
    **dict.fromkeys(_FOR_GOOD, "failed: Disconnect, RetryAfter(3, slow)"),
}

_DRAINING = {
    **_ENDING,
    **_BREAKING,
    "trimmed": "backing off: Disconnect, RetryAfter(3)",
    "ours requested": "snapshot sync: StopSending, WatchSnapshot(ours)",
    "other requested": "snapshot sync: StopSending, WatchSnapshot(other)",
}

#: Pairs with an outcome: "<name of the next state>: <effects in their order>".
CHANGES: dict[str, dict[str, str]] = {
    "idle": {**_ENDING, "started": "negotiating: Negotiate"},
    "negotiating": {
        **_ENDING,
        **_BREAKING,
        "decided resume": "log-entry sync: StreamLog(100, 100)",
        "decided rollback": "rolling back: RollBack(90)",
        "decided rebuild": "snapshot sync: RequestSnapshot",
        "decided await": "snapshot sync: WatchSnapshot(ours)",
        "decided transfer": "snapshot sync: TransferSnapshot(ours)",
        "decided confirm": "negotiating: MarkSnapshotApplied(ours), Negotiate",
        **dict.fromkeys(_REQUESTED, "negotiating"),
    },
    "outdated": {**_ENDING, **_BREAKING, **dict.fromkeys(_DECIDED, "negotiating: Negotiate")},
    "rolling back": {
        **_ENDING,
        **_BREAKING,
        "rolled back": "log-entry sync: StreamLog(100, 100)",
        "rolled back elsewhere": "backing off: Disconnect, RetryAfter(3)",
        "ours requested": "snapshot sync: WatchSnapshot(ours)",
        "other requested": "snapshot sync: WatchSnapshot(other)",
    },
    "requesting": {
        **_ENDING,
        **_BREAKING,
        "ours requested": "snapshot sync: WatchSnapshot(ours)",
        "other requested": "snapshot sync: WatchSnapshot(other)",
    },
    "awaiting": {
        **_ENDING,
        **_BREAKING,
        "other requested": "snapshot sync: WatchSnapshot(other)",
        "ours ready": "snapshot sync: TransferSnapshot(ours)",
        "ours cancelled": "negotiating: Negotiate",
        "ours failed": "snapshot sync",
    },
    "transferring": {
        **_ENDING,
        **_BREAKING,
        "other requested": "snapshot sync: StopSending, WatchSnapshot(other)",
        "ours cancelled": "negotiating: StopSending, Negotiate",
        "our row acked": "snapshot sync",
        "ours sent": "wait for apply",
        "ours applied": "log-entry sync: MarkSnapshotApplied(ours), StreamLog(110, 110)",
    },
    "wait for apply": {
        **_ENDING,
        **_BREAKING,
        "refused CORRUPT": "failed: Disconnect, RetryAfter(3, slow), DiscardSnapshot",
        "other requested": "snapshot sync: StopSending, WatchSnapshot(other)",
        "ours cancelled": "negotiating: StopSending, Negotiate",
        "ours applied": "log-entry sync: MarkSnapshotApplied(ours), StreamLog(110, 110)",
    },
    "catch-up": {
        **_ENDING,
        **_BREAKING,
        "change wanted": "negotiating: Leave, Negotiate",
        "batch acked": "log-entry sync",
        "early end": "draining: EndStream",
        **dict.fromkeys(_ENDS[1:], "draining"),
        "caught up": "log-entry sync",
        "trimmed": "backing off: Disconnect, RetryAfter(3)",
        "ours requested": "snapshot sync: StopSending, WatchSnapshot(ours)",
        "other requested": "snapshot sync: StopSending, WatchSnapshot(other)",
    },
    "live": {
        **_ENDING,
        **_BREAKING,
        "change wanted": "negotiating: Leave, Negotiate",
        "batch acked": "log-entry sync",
        "early end": "draining: EndStream",
        **dict.fromkeys(_ENDS[1:], "draining"),
        "fell behind": "log-entry sync",
        "trimmed": "backing off: Disconnect, RetryAfter(3)",
        "ours requested": "snapshot sync: StopSending, WatchSnapshot(ours)",
        "other requested": "snapshot sync: StopSending, WatchSnapshot(other)",
    },
    "draining": {
        **_DRAINING,
        "batch acked": "draining: EndStream",
        "caught up": "draining",
        "early end": "draining: EndStream",
        "late end": "draining",
        "end again": "draining",
    },
    "draining live": {
        **_DRAINING,
        "batch acked": "draining",
        "fell behind": "draining",
        "early end": "draining: EndStream",
        "end": "draining",
        "end again": "draining",
    },
    "ending": {
        **_DRAINING,
        "batch acked": "draining",
        "caught up": "draining",
        **dict.fromkeys(_ENDS[1:], "negotiating: StopSending, Negotiate"),
        "end acked": "finished: MarkFinished(0), Disconnect",
        "end not taken": "draining",
    },
    "finished": _ENDING,
    "backing off": {**_ENDING, "retry due": "negotiating: Negotiate", "gave up": "failed"},
    "failed": {**_ENDING, "retry due": "negotiating: Negotiate", "gave up": "failed"},
    "stopped": {},
}

_NOT_ASKED: dict[IgnoreReason, tuple[str, ...]] = {
    IgnoreReason.ALREADY_STARTED: ("started",),
    IgnoreReason.NO_RETRY: ("retry due", "gave up"),
    IgnoreReason.NOT_NEGOTIATING: _DECIDED,
    IgnoreReason.NOT_ROLLING_BACK: _ROLLED_BACK,
}
_OUTSIDE_THE_LOG: dict[IgnoreReason, tuple[str, ...]] = {
    IgnoreReason.END_LATER: _ENDS,
    IgnoreReason.NO_END: _END_ANSWERS,
    IgnoreReason.NO_CHANGE: ("change wanted",),
}
_WITHOUT_CONNECTION: dict[IgnoreReason, tuple[str, ...]] = {
    IgnoreReason.ALREADY_STARTED: ("started",),
    IgnoreReason.FOUND_LATER: (*_REQUESTED, *_OUR_NEWS, *_OTHER_NEWS),
    IgnoreReason.END_LATER: _ENDS,
    IgnoreReason.NO_CONNECTION: (
        "peer lost",
        "source failed",
        *_REFUSED,
        *_DECIDED,
        *_ROLLED_BACK,
        *_TRANSFER,
        *_ACKS,
        *_READING,
        *_END_ANSWERS,
        "change wanted",
    ),
}
_IN_THE_LOG: dict[IgnoreReason, tuple[str, ...]] = {
    **_NOT_ASKED,
    IgnoreReason.NO_SNAPSHOT: (*_OUR_NEWS, *_OTHER_NEWS, *_TRANSFER),
    IgnoreReason.ACKED_ALREADY: ("same batch acked", "old batch acked"),
    IgnoreReason.NO_END: _END_ANSWERS,
}

#: Pairs without an outcome, by the reason.
IGNORED: dict[str, dict[IgnoreReason, tuple[str, ...]]] = {
    "idle": {IgnoreReason.NOT_STARTED: tuple(set(EVENTS) - {"started", "stop requested", "ownership lost"})},
    "negotiating": {
        **_OUTSIDE_THE_LOG,
        IgnoreReason.ALREADY_STARTED: ("started",),
        IgnoreReason.NO_RETRY: ("retry due", "gave up"),
        IgnoreReason.NOT_ROLLING_BACK: _ROLLED_BACK,
        IgnoreReason.FOUND_LATER: (*_OUR_NEWS, *_OTHER_NEWS),
        IgnoreReason.NOTHING_SENT: (*_TRANSFER, *_ACKS, *_READING),
    },
    "outdated": {
        **_OUTSIDE_THE_LOG,
        IgnoreReason.ALREADY_STARTED: ("started",),
        IgnoreReason.NO_RETRY: ("retry due", "gave up"),
        IgnoreReason.NOT_ROLLING_BACK: _ROLLED_BACK,
        IgnoreReason.FOUND_LATER: (*_REQUESTED, *_OUR_NEWS, *_OTHER_NEWS),
        IgnoreReason.NOTHING_SENT: (*_TRANSFER, *_ACKS, *_READING),
    },
    "rolling back": {
        **_OUTSIDE_THE_LOG,
        IgnoreReason.ALREADY_STARTED: ("started",),
        IgnoreReason.NO_RETRY: ("retry due", "gave up"),
        IgnoreReason.NOT_NEGOTIATING: _DECIDED,
        IgnoreReason.NO_SNAPSHOT: (*_OUR_NEWS, *_OTHER_NEWS),
        IgnoreReason.NOTHING_SENT: (*_TRANSFER, *_ACKS, *_READING),
    },
    "requesting": {
        **_NOT_ASKED,
        **_OUTSIDE_THE_LOG,
        IgnoreReason.OTHER_SNAPSHOT: (*_OUR_NEWS, *_OTHER_NEWS),
        IgnoreReason.NOTHING_SENT: _TRANSFER,
        IgnoreReason.NO_LOG: (*_ACKS, *_READING),
    },
    "awaiting": {
        **_NOT_ASKED,
        **_OUTSIDE_THE_LOG,
        IgnoreReason.SAME_SNAPSHOT: ("ours requested",),
        IgnoreReason.OTHER_SNAPSHOT: _OTHER_NEWS,
        IgnoreReason.NOTHING_SENT: _TRANSFER,
        IgnoreReason.NO_LOG: (*_ACKS, *_READING),
    },
    "transferring": {
        **_NOT_ASKED,
        **_OUTSIDE_THE_LOG,
        IgnoreReason.SAME_SNAPSHOT: ("ours requested",),
        IgnoreReason.COMPLETED: ("ours ready", "ours failed"),
        IgnoreReason.ACKED_ALREADY: ("our old row acked",),
        IgnoreReason.OTHER_SNAPSHOT: (*_OTHER_NEWS, *_OTHER_TRANSFER),
        IgnoreReason.NO_LOG: (*_ACKS, *_READING),
    },
    "wait for apply": {
        **_NOT_ASKED,
        **_OUTSIDE_THE_LOG,
        IgnoreReason.SAME_SNAPSHOT: ("ours requested",),
        IgnoreReason.COMPLETED: ("ours ready", "ours failed"),
        IgnoreReason.ALL_SENT: ("our row acked", "our old row acked", "ours sent"),
        IgnoreReason.OTHER_SNAPSHOT: (*_OTHER_NEWS, *_OTHER_TRANSFER),
        IgnoreReason.NO_LOG: (*_ACKS, *_READING),
    },
    "catch-up": {**_IN_THE_LOG, IgnoreReason.SAME_MODE: ("fell behind",)},
    "live": {**_IN_THE_LOG, IgnoreReason.SAME_MODE: ("caught up",)},
    "draining": {
        **_IN_THE_LOG,
        IgnoreReason.NO_CHANGE: ("change wanted",),
        IgnoreReason.SAME_MODE: ("fell behind",),
        IgnoreReason.SAME_END: ("end",),
    },
    "draining live": {
        **_IN_THE_LOG,
        IgnoreReason.NO_CHANGE: ("change wanted",),
        IgnoreReason.SAME_MODE: ("caught up",),
        IgnoreReason.SAME_END: ("late end",),
    },
    "ending": {
        **_NOT_ASKED,
        IgnoreReason.NO_CHANGE: ("change wanted",),
        IgnoreReason.NO_SNAPSHOT: (*_OUR_NEWS, *_OTHER_NEWS, *_TRANSFER),
        IgnoreReason.ACKED_ALREADY: ("same batch acked", "old batch acked"),
        IgnoreReason.SAME_MODE: ("fell behind",),
        IgnoreReason.SAME_END: ("early end",),
    },
    "finished": {IgnoreReason.FINISHED: tuple(set(EVENTS) - _ENDING.keys())},
    "backing off": _WITHOUT_CONNECTION,
    "failed": _WITHOUT_CONNECTION,
    "stopped": {IgnoreReason.STOPPED: tuple(EVENTS)},
}
