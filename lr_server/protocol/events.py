"""The events of one session, in the past tense. Pure.

The runner reports events of the *current* connection only. An acknowledgement on an earlier connection may name a
position that the sink has rolled back since.
"""

from dataclasses import dataclass
from enum import IntEnum

from lr_server.protocol.negotiation import Decision
from queues.positions import Position


class RefusalKind(IntEnum):
    """Why a sink refused. The numbers are those of the wire's `Refusal.Kind`; an unknown number is UNSPECIFIED."""

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
    FULL = 11

    @classmethod
    def _missing_(cls, _value: object) -> "RefusalKind":
        return cls.UNSPECIFIED


@dataclass(frozen=True, slots=True)
class Started:
    """The server has started the session."""


@dataclass(frozen=True, slots=True)
class StopRequested:
    """The server stops the session."""


@dataclass(frozen=True, slots=True)
class OwnershipLost:
    """Another server owns this site now."""

    reason: str


@dataclass(frozen=True, slots=True)
class RetryDue:
    """The delay of `RetryAfter` is over."""


@dataclass(frozen=True, slots=True)
class PeerLost:
    """The sink is unreachable, did not answer in time, or the connection broke."""

    error: str


@dataclass(frozen=True, slots=True)
class SourceFailed:
    """The source failed, most often its database; the sink has no part in the failure."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The sink answered with a refusal; `known_generation` is the newest one that it has seen, 0 if untold."""

    kind: RefusalKind
    reason: str
    known_generation: int = 0


@dataclass(frozen=True, slots=True)
class Negotiated:
    """The sink has sent its history, and `decide` has compared the two histories."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The sink has forgotten everything after `position`."""

    position: Position


@dataclass(frozen=True, slots=True)
class SnapshotRequested:
    """The database has a new snapshot request for this session, from the session itself or from a person."""

    sync_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class SnapshotReady:
    """Rows of the snapshot can be read: the snapshot is complete, or its build goes on."""

    sync_id: str


@dataclass(frozen=True, slots=True)
class SnapshotCancelled:
    """The snapshot has ended: cancelled, replaced by a newer one, given up, or applied earlier."""

    sync_id: str


@dataclass(frozen=True, slots=True)
class SnapshotAttemptFailed:
    """The provider failed; its next attempt comes after a delay."""

    sync_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ChunkAcked:
    """The sink has durably staged all rows up to `row`, inclusive (cumulative)."""

    sync_id: str
    row: int


@dataclass(frozen=True, slots=True)
class SnapshotSent:
    """The end marker is handed to the connection."""

    sync_id: str


@dataclass(frozen=True, slots=True)
class SnapshotApplied:
    """The sink has verified and published the snapshot; the log continues after `base`."""

    sync_id: str
    base: Position


@dataclass(frozen=True, slots=True)
class BatchAcked:
    """The sink durably has the log up to `position` (cumulative)."""

    position: Position


@dataclass(frozen=True, slots=True)
class Trimmed:
    """The session wanted the entries after `requested`, but the entries up to `oldest` are trimmed."""

    requested: int
    oldest: int


@dataclass(frozen=True, slots=True)
class FellBehind:
    """The session was too slow for the live feed and reads from the database again."""


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The session has read the database up to the live feed."""


@dataclass(frozen=True, slots=True)
class EndOrdered:
    """An operator has ended the link, and all its entries are in ticks up to `end`.

    The number `order` differs if the link has begun again since, and has ended another time.
    """

    end: int
    order: int = 0


@dataclass(frozen=True, slots=True)
class EndAcked:
    """The sink durably has the end of the stream, after all entries."""


@dataclass(frozen=True, slots=True)
class EndNotTaken:
    """The sink cannot take the end of the stream now."""

    reason: str


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The settings allow no further try."""


@dataclass(frozen=True, slots=True)
class ChangeWanted:
    """The session shall use another connection to the same site, although nothing is wrong with this one."""


#: The events that each state except Stopped handles in its own way.
SessionEvent = (
    Started
    | RetryDue
    | PeerLost
    | SourceFailed
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
    | EndOrdered
    | EndAcked
    | EndNotTaken
    | GaveUp
    | ChangeWanted
)

#: StopRequested and OwnershipLost end the session in every state.
Event = SessionEvent | StopRequested | OwnershipLost
