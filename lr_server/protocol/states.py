"""The states of one session (source x destination x client), and the words that show them. Pure.

`attempt` counts the failures since the last progress: each acknowledgement of something new sets it to 0.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, assert_never

from queues.positions import Position
from queues.states import SessionState


class Mode(StrEnum):
    """How a session reads the log: from the shared live feed, or from the database until it has caught up."""

    LIVE = "live"
    CATCH_UP = "catch-up"


@dataclass(frozen=True, slots=True)
class Idle:
    """Created and not started."""


@dataclass(frozen=True, slots=True)
class Negotiating:
    """The source has asked for the sink's history. `outdated`: a newer snapshot request makes the source ask again.

    `failure` is the reason why the last attempt failed. A sink that stands still gives no other for a while.
    """

    attempt: int = 0
    outdated: bool = False
    failure: str = ""


@dataclass(frozen=True, slots=True)
class BackingOff:
    """There is no connection; the session tries again after a delay."""

    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class RollingBack:
    """The source has told the sink to forget everything after `to`."""

    to: Position
    reason: str
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotRequesting:
    """The session needs a snapshot, and writes the request."""

    reason: str
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotAwaiting:
    """The request is written, and the provider has not completed it. `trouble`: why the last attempt failed."""

    sync_id: str
    reason: str
    trouble: str = ""
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotTransferring:
    """The snapshot's rows are being sent; the sink has durably staged the first `acked_row` rows."""

    sync_id: str
    reason: str
    acked_row: int = 0
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class WaitForApply:
    """Rows and end marker are sent; the sink has not verified and published them yet."""

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
class Draining:
    """The link has ended by `order`: the log is being sent up to `end`, then the end of the stream.

    The sink durably has everything up to `acked`. `is_ending`: the end of the stream is being sent. `trouble`: why the
    sink cannot take it.
    """

    acked: Position
    end: int
    mode: Mode = Mode.CATCH_UP
    attempt: int = 0
    is_ending: bool = False
    trouble: str = ""
    order: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """The sink has all entries and the end of the stream at `end`; the session has nothing left to do."""

    end: int


@dataclass(frozen=True, slots=True)
class Failed:
    """Only a person can help. The session still tries again at long intervals, so that no restart is necessary.

    With `is_final` it does not: the settings allow no further try.
    """

    attempt: int
    reason: str
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Stopped:
    """The session has ended; all later events are ignored."""

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
    | Draining
    | Finished
    | Failed
    | Stopped
)


class StatusText(NamedTuple):
    """A state as `lrq status` shows it: `detail` is the reason for `name`, or its object, for people."""

    name: SessionState
    detail: str


@dataclass(frozen=True, slots=True)
class SessionStanding:
    """The facts of a session that its server saves in the database.

    `acked` and `applied_seq` are None until the sink has answered for the first time since the server began. `replaced`
    entries were not sent, because later entries of the same item were. `window_percent` of the window is in use.
    """

    words: StatusText
    acked: Position | None
    applied_seq: int | None
    transferred_rows: int = 0
    replaced: int = 0
    window_percent: int = 0


def describe(state: State) -> StatusText:  # noqa: C901 - one case a state
    """Return the words for *state*; acknowledgements alone do not change the words."""
    match state:
        case Idle():
            return StatusText(SessionState.IDLE, "not started")
        case Negotiating(failure=failure):
            return StatusText(SessionState.NEGOTIATING, f"the last try failed: {failure}" if failure else "")
        case BackingOff(reason=reason):
            return StatusText(SessionState.BACKING_OFF, reason)
        case RollingBack(to=to, reason=reason):
            return StatusText(SessionState.ROLLING_BACK, f"to {to.seq}: {reason}")
        case SnapshotRequesting(reason=reason):
            return StatusText(SessionState.SNAPSHOT_SYNC, f"requesting one: {reason}")
        case SnapshotAwaiting(sync_id=sync_id, reason=reason, trouble=trouble):
            failed = f" (the last attempt failed: {trouble})" if trouble else ""
            return StatusText(
                SessionState.SNAPSHOT_SYNC, f"waiting for the provider of snapshot {sync_id}{failed}: {reason}"
            )
        case SnapshotTransferring(sync_id=sync_id, reason=reason):
            return StatusText(SessionState.SNAPSHOT_SYNC, f"transferring snapshot {sync_id}: {reason}")
        case WaitForApply(sync_id=sync_id, reason=reason):
            return StatusText(SessionState.WAIT_FOR_APPLY, f"snapshot {sync_id}: {reason}")
        case LogEntrySync(mode=mode):
            return StatusText(SessionState.LOG_ENTRY_SYNC, mode.value)
        case Draining(trouble=trouble) if trouble:
            return StatusText(SessionState.DRAINING, trouble)
        case Draining(end=end, is_ending=is_ending):
            return StatusText(SessionState.DRAINING, "the end of the stream is sent" if is_ending else f"up to {end}")
        case Finished(end=end):
            return StatusText(SessionState.FINISHED, f"the sink has everything, and the end of the stream at {end}")
        case Failed(reason=reason):
            return StatusText(SessionState.FAILED, reason)
        case Stopped(reason=reason):
            return StatusText(SessionState.STOPPED, reason)
        case _:
            assert_never(state)
