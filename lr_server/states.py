"""The states of one session (source x destination x client), and the words that show them. Pure.

`attempt` counts the failures since the session last got on; it grows only between two acknowledgements that are news.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, assert_never

from queues.positions import Position


class Mode(StrEnum):
    """How a session gets the log: from the feed that all share, or reading alone until it has caught up."""

    LIVE = "live"
    CATCH_UP = "catch-up"


@dataclass(frozen=True, slots=True)
class Idle:
    """Made, not started."""


@dataclass(frozen=True, slots=True)
class Negotiating:
    """The sink has been asked what it has. `outdated`: a snapshot was requested meanwhile, so it is asked again."""

    attempt: int = 0
    outdated: bool = False


@dataclass(frozen=True, slots=True)
class BackingOff:
    """There is no connection; the next try comes after a while."""

    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class RollingBack:
    """The sink has been told to forget what comes after `to`."""

    to: Position
    reason: str
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotRequesting:
    """A snapshot is needed, and its request is being written."""

    reason: str
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotAwaiting:
    """The request stands; the application's provider has yet to complete it. `trouble`: why its last attempt failed."""

    sync_id: str
    reason: str
    trouble: str = ""
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotTransferring:
    """Its rows are on their way; the sink has durably staged the first `acked_row`."""

    sync_id: str
    reason: str
    acked_row: int = 0
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class WaitForApply:
    """Rows and end marker are sent; the sink has yet to verify and publish them."""

    sync_id: str
    reason: str
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class LogEntrySync:
    """The log is being sent; the sink durably has everything up to `acked`."""

    acked: Position
    mode: Mode = Mode.CATCH_UP
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """Only a person can help. It is tried again, slowly, so that nobody has to restart anything afterwards."""

    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """Over; whatever still comes is ignored."""

    reason: str


State = (
    Idle
    | Negotiating
    | BackingOff
    | RollingBack
    | SnapshotRequesting
    | SnapshotAwaiting
    | SnapshotTransferring
    | WaitForApply
    | LogEntrySync
    | Failed
    | Stopped
)


class Words(NamedTuple):
    """A state as `status` shows it: `name` is one of a few words, `detail` says why or for what."""

    name: str
    detail: str


#: What the database says of a session that the server does not run any more: nobody waits for it.
LEFT_OUT: Final = "left out"


@dataclass(frozen=True, slots=True)
class Standing:
    """How a session stands, as status and the database show it.

    `acked` is None until the sink has told, since the server began, what it has.
    """

    words: Words
    acked: Position | None
    applied_seq: int
    transferred_rows: int = 0


def describe(state: State) -> Words:  # noqa: C901 - one case a state
    """Return the words for *state*; they change when it does, not with every acknowledgement."""
    match state:
        case Idle():
            return Words("idle", "not started")
        case Negotiating():
            return Words("negotiating", "")
        case BackingOff(reason=reason):
            return Words("backing off", reason)
        case RollingBack(to=to, reason=reason):
            return Words("rolling back", f"to {to.seq}: {reason}")
        case SnapshotRequesting(reason=reason):
            return Words("snapshot sync", f"requesting one: {reason}")
        case SnapshotAwaiting(sync_id=sync_id, reason=reason, trouble=trouble):
            failed = f" (the last attempt failed: {trouble})" if trouble else ""
            return Words("snapshot sync", f"waiting for the provider of snapshot {sync_id}{failed}: {reason}")
        case SnapshotTransferring(sync_id=sync_id, reason=reason):
            return Words("snapshot sync", f"transferring snapshot {sync_id}: {reason}")
        case WaitForApply(sync_id=sync_id, reason=reason):
            return Words("wait for apply", f"snapshot {sync_id}: {reason}")
        case LogEntrySync(mode=mode):
            return Words("log-entry sync", mode.value)
        case Failed(reason=reason):
            return Words("failed", reason)
        case Stopped(reason=reason):
            return Words("stopped", reason)
        case _:
            assert_never(state)
