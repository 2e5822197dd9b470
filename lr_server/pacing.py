"""How long to wait before a server does again what costs the database something. Pure."""

from collections.abc import Sequence
from statistics import median_low
from typing import Final

#: The shortest pause, in seconds.
SOON: Final = 0.002
#: When ticks take this long to take, each is followed by a pause as long, in seconds.
_BUSY: Final = 0.0025
#: Of so many of the newest ticks the middle one counts.
RECENT: Final = 5


def pause_after(recent: Sequence[float], longest: float) -> float:
    """Return the seconds to wait after a tick, when the *recent* ones took so many seconds to take; *longest* at most.

    What a tick costs hardly depends on how many entries it holds, here and at each sink. As the database and the
    machine get busier taking one gets slower, and the share of the time that goes into ticks is to get smaller: so the
    pause grows much faster than the time that a tick takes (with its third power: measured against the second, more
    deliveries and less latency). One tick that the disk held up says nothing about that.
    """
    took = median_low(recent)
    return min(max(took**3 / _BUSY**2, SOON), longest)


def rest_after(took: float) -> float:
    """Return the seconds to leave the sessions' rows alone after it took *took* to save them: nine tenths of the time.

    While somebody holds a snapshot none of their old versions can be removed, and finding the newest takes longer and
    longer.
    """
    return 9 * took
