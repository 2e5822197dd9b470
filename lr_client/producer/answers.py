"""Requests, answers and outcomes of a producer, as the machine sees them. Pure."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from queues.positions import ORIGIN, Position


class DeclineKind(Enum):
    """The reasons of a server for a refusal; the names are those of `ProduceRefusal.Kind` in proto/ingest.proto."""

    UNSPECIFIED = auto()
    GAP = auto()
    UNKNOWN_CLIENT = auto()
    NOT_ALLOWED = auto()
    INVALID = auto()
    TOO_LARGE = auto()
    FULL = auto()
    NO_FOLLOWER = auto()
    NOT_LEADER = auto()
    TRANSIENT = auto()
    TAKEN = auto()


#: Refusals that may end by themselves, so the same request is sent again.
PASSING: Final = frozenset(
    {DeclineKind.UNSPECIFIED, DeclineKind.FULL, DeclineKind.NO_FOLLOWER, DeclineKind.NOT_LEADER, DeclineKind.TRANSIENT}
)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The request is stored; to the question for the last number, `sequence` is that number."""

    sequence: int
    position: Position = ORIGIN
    token: str = ""


@dataclass(frozen=True, slots=True)
class Declined:
    """Nothing of the request was stored by this answer."""

    sequence: int
    kind: DeclineKind
    reason: str = ""
    last_sequence: int = 0
    leader: str = ""


class Produced(NamedTuple):
    """A stored request: its number, its place in the log of the site, and the token of its transaction.

    The site may have stored the request at an earlier attempt, and not know its place any more. Then the position is
    `ORIGIN`, with an empty branch, and the token is empty.
    """

    sequence: int
    position: Position
    token: str


class FailureCause(Enum):
    """The ways in which a request fails."""

    #: The server refused the request.
    REFUSED = auto()
    #: A request before it was refused, so the request is not stored either.
    DROPPED = auto()
    #: The time has passed, and the request is not stored.
    LATE = auto()
    #: The time has passed, and the request may be stored.
    UNKNOWN = auto()
    #: The site has lost requests that it had answered.
    HISTORY_LOST = auto()
    #: Another process uses the name of the producer.
    TAKEN = auto()
    #: The producer was closed, and the request is not stored.
    CLOSED = auto()


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """A request without success; `number` is 0 for a request that has none."""

    cause: FailureCause
    number: int = 0
    reason: str = ""
    kind: DeclineKind = DeclineKind.UNSPECIFIED


class RequestOutcome(NamedTuple):
    """The end of the wait for the request with this key."""

    key: int
    result: Produced | RequestFailure
