"""How long to wait before a server does again what costs the database something. Pure."""

from collections.abc import Sequence
from statistics import fmean, median_low
from typing import Final, NamedTuple

#: The shortest pause, in seconds.
SOON: Final = 0.002
#: So many of the newest ticks tell how busy the source is.
RECENT: Final = 8
#: With so many rows a second to one site nobody is busy yet.
_EASY: Final = 2_000
#: The pause for each row a second beyond those, in seconds: 30 ms for 10,000 rows a second to one site, as measured.
_PER_ROW_RATE: Final = 3.75e-6


class Taken(NamedTuple):
    """A tick, or some that were taken in a row: when that ended, how long it took in seconds, what was in them.

    `sites` is the number of destinations that get something.
    """

    ended: float
    took: float
    rows: int
    sites: int


def pause_after(recent: Sequence[Taken], longest: float) -> float:
    """Return the seconds to wait after the last of the *recent* ticks; *longest* at most.

    A tick costs something that does not depend on its rows, here and at every site that gets a part of it; each row
    does too. The busier the rows keep all of them, the smaller the share of the time that is to go into ticks: so the
    pause grows with the product of both. How long ticks take cannot tell: one that comes later holds more and takes
    longer, and the pauses would drive each other. But half of the time is left to others in any case; one tick that
    the disk held up says nothing about that.
    """
    span = recent[-1].ended - recent[0].ended
    rate = (sum(tick.rows for tick in recent) - recent[0].rows) / span if span > 0 else 0.0
    # The work at the source and at one site is the measure, of what a tick costs and of what a row does.
    times = (1 + fmean(tick.sites for tick in recent)) / 2
    for_load = _PER_ROW_RATE * max(rate * times - _EASY, 0.0) * times
    return min(max(for_load, median_low(tick.took for tick in recent), SOON), longest)


def rest_after(took: float) -> float:
    """Return the seconds to leave the sessions' rows alone after it took *took* to save them: nine tenths of the time.

    While somebody holds a snapshot none of their old versions can be removed, and finding the newest takes longer and
    longer.
    """
    return 9 * took
