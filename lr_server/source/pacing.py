"""The pauses between two ticks, and between two saves of the sessions. Pure."""

from collections.abc import Sequence
from statistics import fmean, median_low
from typing import Final, NamedTuple

#: The shortest pause, in seconds.
SOON: Final = 0.002
#: The longest rest between two saves of the sessions, in seconds.
LONGEST_REST: Final = 5.0
#: The number of newest ticks that measure the load of the source.
RECENT: Final = 8
#: Up to this rate, in rows a second to one site, the load is light.
_EASY: Final = 2_000
#: The pause for each row a second beyond `_EASY`, in seconds. Measured: 30 ms at 10,000 rows a second to one site.
_PER_ROW_RATE: Final = 3.75e-6


class Taken(NamedTuple):
    """Ticks taken in a row: the end time and the duration of taking them in seconds, and their rows.

    `sites` is the number of destinations with rows in these ticks.
    """

    ended: float
    took: float
    rows: int
    sites: int


def pause_after(recent: Sequence[Taken], longest: float) -> float:
    """Return the seconds to wait after the last of the *recent* ticks; *longest* at most.

    A tick has a fixed cost at the source and at every site with rows in it. Each row has a cost there too. So the
    pause grows with the product of the row rate and the number of sites.

    The duration of ticks is no measure of load. After a longer pause a tick holds more rows and takes longer, so pauses
    would grow by themselves. But the pause is at least the median duration, which leaves half of the time to other
    work. The median ignores a single tick that a slow disk delayed.
    """
    span = recent[-1].ended - recent[0].ended
    rate = (sum(tick.rows for tick in recent) - recent[0].rows) / span if span > 0 else 0.0
    # The unit is the cost at the source and at one site, for a tick and for a row.
    times = (1 + fmean(tick.sites for tick in recent)) / 2
    for_load = _PER_ROW_RATE * max(rate * times - _EASY, 0.0) * times
    return min(max(for_load, median_low(tick.took for tick in recent), SOON), longest)


def rest_after(took: float) -> float:
    """Return the seconds until the next save of the sessions after a save of *took* seconds.

    So saves take at most a tenth of the time. While a transaction holds a database snapshot, old row versions
    accumulate, and each save takes longer. A very long save waited for something else, such as a standby server, so
    the rest is never above `LONGEST_REST`.
    """
    return min(9 * took, LONGEST_REST)
