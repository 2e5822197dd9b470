"""What can happen to one session, in the past tense. Pure.

The edge reports what it sees on the session's *current* connection only: an acknowledgement of an earlier one may
speak of a position that the sink has since rolled back.
"""

from dataclasses import dataclass
from enum import IntEnum

from lr_server.negotiation import Decision
from queues.positions import Position


class RefusalKind(IntEnum):
    """Why a sink refused; the numbers are those of the wire's `Refusal.Kind`, one it does not know is UNSPECIFIED."""

    UNSPECIFIED = 0
    STALE_LEADER = 1
    WRONG_SITE = 2
    NO_STREAM_BEGIN = 3
    GAP = 4
    CORRUPT = 5
    OTHER_SNAPSHOT = 6
    TRANSIENT = 7
    TOO_LARGE = 8
    PROTOCOL = 9
    CONSUMED = 10

    @classmethod
    def _missing_(cls, _value: object) -> "RefusalKind":
        return cls.UNSPECIFIED


@dataclass(frozen=True, slots=True)
class Started:
    """The session was told to begin."""


@dataclass(frozen=True, slots=True)
class StopRequested:
    """The session was told to end."""


@dataclass(frozen=True, slots=True)
class OwnershipLost:
    """Another server owns this site now."""

    reason: str


@dataclass(frozen=True, slots=True)
class RetryDue:
    """The time that `RetryAfter` asked for is over, or there is a reason to try earlier."""


@dataclass(frozen=True, slots=True)
class PeerLost:
    """The sink could not be reached, did not answer in time, or the connection broke."""

    error: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The sink answered, and would not."""

    kind: RefusalKind
    reason: str


@dataclass(frozen=True, slots=True)
class Negotiated:
    """The sink told what it has, and `decide` drew the conclusion."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The sink has forgotten everything after `position`."""

    position: Position


@dataclass(frozen=True, slots=True)
class SnapshotRequested:
    """A request stands in the database and is the newest one of this session, whoever made it."""

    sync_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class SnapshotReady:
    """The provider has completed it, and its rows can be read."""

    sync_id: str


@dataclass(frozen=True, slots=True)
class SnapshotCancelled:
    """It ended without this session's doing: cancelled, replaced by a newer one, given up, or applied earlier."""

    sync_id: str


@dataclass(frozen=True, slots=True)
class SnapshotAttemptFailed:
    """The provider failed; it will be asked again after a while."""

    sync_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ChunkAcked:
    """The sink has durably staged the rows up to and with `row` (cumulative)."""

    sync_id: str
    row: int


@dataclass(frozen=True, slots=True)
class SnapshotSent:
    """The end marker has been handed to the connection."""

    sync_id: str


@dataclass(frozen=True, slots=True)
class SnapshotApplied:
    """The sink has verified and published it; the log goes on after `base`."""

    sync_id: str
    base: Position


@dataclass(frozen=True, slots=True)
class BatchAcked:
    """The sink durably has the log up to `position` (cumulative)."""

    position: Position


@dataclass(frozen=True, slots=True)
class Trimmed:
    """Entries after `requested` were to be read, but those up to `oldest` are gone."""

    requested: int
    oldest: int


@dataclass(frozen=True, slots=True)
class FellBehind:
    """The session was taken off the shared feed, because it was too slow for it."""


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Reading alone, the session has reached the shared feed."""


#: What every state but Stopped answers in its own way.
SessionEvent = (
    Started
    | RetryDue
    | PeerLost
    | Refused
    | Negotiated
    | RolledBack
    | SnapshotRequested
    | SnapshotReady
    | SnapshotCancelled
    | SnapshotAttemptFailed
    | ChunkAcked
    | SnapshotSent
    | SnapshotApplied
    | BatchAcked
    | Trimmed
    | FellBehind
    | CaughtUp
)

#: The last two end the session in every state.
Event = SessionEvent | StopRequested | OwnershipLost
