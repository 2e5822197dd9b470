"""The events of one member of a token. Pure.

Clocks belong to the edge. An event of a clock says when to try; no event of a clock makes a tick released.
"""

from dataclasses import dataclass

from lr_server.protocol.agreement.messages import RingMessage
from lr_server.protocol.agreement.record import StoreId


@dataclass(frozen=True, slots=True)
class TryDue:
    """The time has come to look whether this member should lead, or should ask again as a newcomer."""


@dataclass(frozen=True, slots=True)
class BeatDue:
    """The time has come for a sign of life, and for ticks that were sent and not acknowledged."""


@dataclass(frozen=True, slots=True)
class LeaderUnheard:
    """No message of the leader came for the time of a lease."""


@dataclass(frozen=True, slots=True)
class FollowersUnheard:
    """No acknowledgement of any follower came for `stall_seconds`."""


@dataclass(frozen=True, slots=True)
class FollowerUnheard:
    """No acknowledgement of the follower `rank` came for `stall_seconds`."""

    rank: int


@dataclass(frozen=True, slots=True)
class EntriesOffered:
    """Producers have entries for the next tick."""


@dataclass(frozen=True, slots=True)
class MessageCame:
    """A message of the member `sender`, written by its store `store`."""

    sender: int
    store: StoreId
    message: RingMessage


RingEvent = (
    TryDue | BeatDue | LeaderUnheard | FollowersUnheard | FollowerUnheard | EntriesOffered | MessageCame
)  # fmt: skip
