"""Who leaves the shared live feed when outboxes fill up (seed 000, 0.23 to 0.31). Pure.

To leave costs nothing but reading alone: the session goes on from the log, and joins again when it has caught up.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Final, Literal, TypeVar, assert_never

#: `cascade`: everyone waits for the slowest. `drop`: who is almost full leaves. `smart`: who is slow leaves, unless
#: more than half are; then something is wrong that leaving would not cure, and everyone waits.
FlowControl = Literal["cascade", "drop", "smart"]

#: Share of an outbox above which it is almost full.
HIGH_MARK: Final = 0.8

Member = TypeVar("Member", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Outbox:
    """How one destination fared in the last window of time: share of its outbox in use, bytes a second drained."""

    fill: float
    drained_per_second: float


def leaving(policy: FlowControl, outboxes: Mapping[Member, Outbox]) -> frozenset[Member]:
    """Return who leaves the live feed now; the feed waits for everybody else."""
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
    """Almost full, and draining at most half as fast as the median of those that are not."""
    full = _almost_full(outboxes)
    healthy = [outbox.drained_per_second for member, outbox in outboxes.items() if member not in full]
    if not healthy:
        return full
    limit = median(healthy) / 2
    return frozenset(member for member in full if outboxes[member].drained_per_second <= limit)
