"""When a new segment begins, so that retention holds although segments are trimmed whole. Pure.

A segment is beyond retention once its newest entry is. So its oldest entry is kept longer, by the segment's length.
There are few partitions, and a rotation needs an empty one. Quick rotations could fill all of them, and then one
segment would grow for as long as retention. So a rotation must leave enough partitions for the time until the oldest
segment goes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from queues.send_log.port import Retention

#: The longest segment, as a share of retention. Seven closed segments of this length cover more than retention.
LONGEST_SHARE: Final = 1 / 6
#: The longest time between two runs of trim, as a share of retention.
TRIM_SHARE: Final = 1 / 40
#: The shortest time between two runs of trim, in seconds.
SHORTEST_PAUSE: Final = 0.1


@dataclass(frozen=True, slots=True)
class SegmentLimits:
    """A segment closes at this many seconds, or at this many bytes of payload."""

    seconds: float
    payload_bytes: int

    def are_reached(self, payload_bytes: int, age_us: int) -> bool:
        """Tell whether a segment of *payload_bytes* is due that was opened *age_us* microseconds ago.

        A segment of a later time is due at once, because no limit ends such a segment.
        """
        return age_us < 0 or age_us >= int(self.seconds * 1_000_000) or payload_bytes >= self.payload_bytes

    def within(self, retention: Retention | None) -> "SegmentLimits":
        """Return limits that are no longer than a sixth of *retention*."""
        if retention is None:
            return self
        shortest = min(_seconds(retention))
        return SegmentLimits(
            min(self.seconds, shortest * LONGEST_SHARE),
            min(self.payload_bytes, int(retention.payload_bytes * LONGEST_SHARE)),
        )


def share(seconds: float, payload_bytes: int, retention: Retention) -> float:
    """Return this age or size as a part of *retention*, 1 at its end; the larger part counts."""
    return max(seconds / max(retention.seconds, 1e-9), payload_bytes / max(retention.payload_bytes, 1))


def leaves_room(oldest_share: float, free: int) -> bool:
    """Return whether a rotation leaves enough room until the oldest closed segment goes.

    *oldest_share* is the `share` of retention since that segment closed; *free* partitions are empty afterwards.
    """
    return 1 - oldest_share <= (free + 1) * LONGEST_SHARE


def trim_pause(trim_seconds: float, retention: Retention) -> float:
    """Return the seconds between two runs of trim: *trim_seconds*, or less where retention is short."""
    return min(trim_seconds, max(min(_seconds(retention)) * TRIM_SHARE, SHORTEST_PAUSE))


def _seconds(retention: Retention) -> Sequence[float]:
    return retention.seconds, retention.unknown_seconds
