"""The effects that the machine asks the runner to carry out. Pure.

The runner carries out the effects of one step in their order, each one completely before the next. So a durable write
comes before the frame that depends on the write. A failure of this site during an effect posts SourceFailed.
"""

from dataclasses import dataclass
from enum import StrEnum

from lr_server.protocol.states import StatusText
from queues.positions import Position


class IgnoreReason(StrEnum):
    """Every reason for which an event changes nothing."""

    NOT_STARTED = "the session has not started"
    ALREADY_STARTED = "the session has started already"
    STOPPED = "the session is stopped"
    NO_CONNECTION = "the event belongs to a closed connection"
    NOTHING_SENT = "nothing is being sent, so the event belongs to earlier frames"
    NOT_NEGOTIATING = "no negotiation is under way"
    NOT_ROLLING_BACK = "no rollback is under way"
    NO_RETRY = "the session waits for no retry"
    FOUND_LATER = "the next negotiation reads the snapshot request from the database"
    NO_SNAPSHOT = "no snapshot sync is under way"
    OTHER_SNAPSHOT = "the event belongs to another snapshot"
    SAME_SNAPSHOT = "that snapshot is under way already"
    COMPLETED = "the provider has completed that snapshot already"
    ALL_SENT = "that snapshot is sent completely, only its completion counts"
    ACKED_ALREADY = "that position was acknowledged before"
    NO_LOG = "no log is being sent"
    SAME_MODE = "the session is in that mode already"
    END_LATER = "the session learns of the end again when it sends the log"
    SAME_END = "the session drains up to that end already"
    NO_END = "no end of the stream is being sent"
    NO_CHANGE = "a session changes its connection only while it sends the log"
    FINISHED = "the sink has the end of the stream"


@dataclass(frozen=True, slots=True)
class Negotiate:
    """Ask the sink for its history and call `decide`; answer with Negotiated, Refused or PeerLost."""


@dataclass(frozen=True, slots=True)
class RollBack:
    """Make the sink forget everything after `to`; answer with RolledBack, Refused or PeerLost."""

    to: Position


@dataclass(frozen=True, slots=True)
class RequestSnapshot:
    """Write a new snapshot request, which replaces every older one, in one transaction.

    Answer with SnapshotRequested.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class WatchSnapshot:
    """Report the state of this snapshot now and after each change.

    The events are SnapshotReady, SnapshotAttemptFailed, and SnapshotCancelled once the snapshot has ended.
    """

    sync_id: str


@dataclass(frozen=True, slots=True)
class TransferSnapshot:
    """Send begin, the rows that the sink lacks, and the end marker; report ChunkAcked, SnapshotSent, SnapshotApplied.

    The sink keeps the rows that it has staged of the same build. Rows of a build that goes on are sent as they come.
    Report SnapshotCancelled once that build has failed.
    """

    sync_id: str


@dataclass(frozen=True, slots=True)
class MarkSnapshotApplied:
    """Write durably that the sink has this snapshot."""

    sync_id: str


@dataclass(frozen=True, slots=True)
class DiscardSnapshot:
    """Replace the snapshot by a new request for `reason`, durably, in one transaction."""

    reason: str


@dataclass(frozen=True, slots=True)
class StreamLog:
    """Send the log: batches begin at `position`, and the first row to read is after `read_after`.

    The stream reads the database until it reaches the live feed, and again when it falls behind the feed. Report
    BatchAcked, Trimmed, and each change between both ways of reading as CaughtUp or FellBehind. If the link has ended,
    report EndOrdered.
    """

    position: Position
    read_after: int


@dataclass(frozen=True, slots=True)
class EndStream:
    """Send the end of the stream after all frames of the log; report EndAcked or EndNotTaken."""


@dataclass(frozen=True, slots=True)
class MarkFinished:
    """Write durably that the sink has the end of the stream, if the link still ends by `order`."""

    order: int


@dataclass(frozen=True, slots=True)
class StopSending:
    """Stop sending the current log or snapshot; the connection may stay."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection; frames in flight are lost."""


@dataclass(frozen=True, slots=True)
class Leave:
    """End the stream, then close the connection; frames in flight are sent again by the next one."""


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """Report RetryDue after the backoff delay of this attempt; `slow` when only a person can help.

    Report GaveUp instead after the last try that the settings allow.
    """

    attempt: int
    slow: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """Show these words as the session's state."""

    words: StatusText


@dataclass(frozen=True, slots=True)
class Ignored:
    """The event changes nothing in this state, for the reason `why`."""

    why: IgnoreReason


Effect = (
    Negotiate
    | RollBack
    | RequestSnapshot
    | WatchSnapshot
    | TransferSnapshot
    | MarkSnapshotApplied
    | DiscardSnapshot
    | StreamLog
    | EndStream
    | MarkFinished
    | StopSending
    | Disconnect
    | Leave
    | RetryAfter
    | Report
    | Ignored
)
