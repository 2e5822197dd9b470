"""What the machine asks of the edge. Pure.

The edge carries out the effects of one step in their order, and each one completely before the next: what must be
durable stands before what is sent.
"""

from dataclasses import dataclass
from enum import StrEnum

from lr_server.states import Words
from queues.positions import Position


class Stale(StrEnum):
    """Every reason for which an event changes nothing."""

    NOT_STARTED = "the session has not started"
    ALREADY_STARTED = "the session has started already"
    STOPPED = "the session is stopped"
    NO_CONNECTION = "it belongs to a connection that was given up"
    NOTHING_SENT = "nothing is being sent, so it belongs to what was sent before"
    NOT_NEGOTIATING = "no negotiation is under way"
    NOT_ROLLING_BACK = "no rollback is under way"
    NO_RETRY = "no retry is being waited for"
    FOUND_LATER = "the next negotiation finds it in the database"
    NO_SNAPSHOT = "no snapshot sync is under way"
    OTHER_SNAPSHOT = "it belongs to another snapshot"
    SAME_SNAPSHOT = "that snapshot is the one under way"
    COMPLETED = "the provider has completed that snapshot"
    ALL_SENT = "all of that snapshot is sent, only its completion counts"
    ACKED_ALREADY = "that much was acknowledged before"
    NO_LOG = "no log is being sent"
    SAME_MODE = "the session gets the log that way already"


@dataclass(frozen=True, slots=True)
class Negotiate:
    """Ask the sink what it has and `decide`; answer with Negotiated, Refused or PeerLost."""


@dataclass(frozen=True, slots=True)
class RollBack:
    """Let the sink forget everything after `to`; answer with RolledBack, Refused or PeerLost."""

    to: Position


@dataclass(frozen=True, slots=True)
class RequestSnapshot:
    """Write a new request, which replaces any older one, and clear what ordered it, in one transaction.

    Answer with SnapshotRequested.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class WatchSnapshot:
    """Report now, and whenever it changes, what state this snapshot is in.

    SnapshotReady, SnapshotAttemptFailed, or SnapshotCancelled when it is finished in whatever way.
    """

    sync_id: str


@dataclass(frozen=True, slots=True)
class TransferSnapshot:
    """Send begin, the rows after `after_row` and the end marker; report ChunkAcked, SnapshotSent, SnapshotApplied.

    The sink's answer to the begin says how many rows it has staged: go on after those.
    """

    sync_id: str
    after_row: int


@dataclass(frozen=True, slots=True)
class MarkSnapshotApplied:
    """Note durably that the sink has this snapshot."""

    sync_id: str


@dataclass(frozen=True, slots=True)
class DiscardSnapshot:
    """Give this snapshot up and order a full sync for `reason`, durably, in one transaction."""

    sync_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class StreamLog:
    """Send the log, reading alone: batches begin at `position`, the first row to read is after `read_after`.

    Report BatchAcked, Trimmed, and CaughtUp once the shared feed is reached.
    """

    position: Position
    read_after: int


@dataclass(frozen=True, slots=True)
class JoinLive:
    """Take the log from the shared feed from here on; report FellBehind when it can no longer follow."""


@dataclass(frozen=True, slots=True)
class ReadAlone:
    """Read the log alone after what was sent last; report CaughtUp once the shared feed is reached."""


@dataclass(frozen=True, slots=True)
class StopSending:
    """Send no more of the log or snapshot that is being sent; the connection may stay."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Give up the connection, with everything in flight."""


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """Report RetryDue after the delay that backoff gives for this attempt; `slow` when only a person can help."""

    attempt: int
    slow: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """Show these words as the session's state."""

    words: Words


@dataclass(frozen=True, slots=True)
class Ignored:
    """The event changes nothing in this state, and this is why."""

    why: Stale


Effect = (
    Negotiate
    | RollBack
    | RequestSnapshot
    | WatchSnapshot
    | TransferSnapshot
    | MarkSnapshotApplied
    | DiscardSnapshot
    | StreamLog
    | JoinLive
    | ReadAlone
    | StopSending
    | Disconnect
    | RetryAfter
    | Report
    | Ignored
)
