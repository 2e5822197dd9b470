"""Choose the sessions that leave a full live feed (docs/design.md, "The live feed"). Pure.

A session that leaves loses nothing. The session reads the log from the database, and joins again when it has caught up.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Final, Literal, TypeVar, assert_never

#: `cascade`: all sessions wait for the slowest. `drop`: sessions with an almost full outbox leave.
#: `smart`: slow sessions leave, unless more than half are slow. Then the cause is common, and all wait.
FlowControl = Literal["cascade", "drop", "smart"]

#: The share from which on an outbox is almost full.
HIGH_MARK: Final = 0.8

Member = TypeVar("Member", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Outbox:
    """One session's unread part of the feed: the used share, and the bytes read per second in the last interval."""

    fill: float
    drained_per_second: float


def leaving(policy: FlowControl, outboxes: Mapping[Member, Outbox]) -> frozenset[Member]:
    """Return the sessions that leave the live feed now; the feed waits for all others."""
    match policy:
        case "cascade":
            return frozenset()
        case "drop":
            return _almost_full(outboxes)
        case "smart":
            slow = _slow(outboxes)
            return frozenset() if 2 * len(slow) > len(outboxes) else slow
        case _:
            assert_never(policy)


def _almost_full(outboxes: Mapping[Member, Outbox]) -> frozenset[Member]:
    return frozenset(member for member, outbox in outboxes.items() if outbox.fill >= HIGH_MARK)


def _slow(outboxes: Mapping[Member, Outbox]) -> frozenset[Member]:
    """Return the almost full outboxes that drain at most half as fast as the median of the others."""
    full = _almost_full(outboxes)
    healthy = [outbox.drained_per_second for member, outbox in outboxes.items() if member not in full]
    if not healthy:
        return full
    limit = median(healthy) / 2
    return frozenset(member for member in full if outboxes[member].drained_per_second <= limit)
