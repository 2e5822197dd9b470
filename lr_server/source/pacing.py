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
#: The load up to which transactions may notify the server: transactions a second, and seconds of the load's pause.
_FEW_TRANSACTIONS: Final = 1_000
_SHORT_PAUSE: Final = 0.005
#: Transactions with a notification commit one after the other; this share of the time they may need.
_NOTIFYING_SHARE: Final = 0.5
#: The pause for each row a second beyond `_EASY`, in seconds. Measured: 30 ms at 10,000 rows a second to one site.
_PER_ROW_RATE: Final = 3.75e-6


class Taken(NamedTuple):
    """Ticks taken in a row: the end time and the duration of taking them in seconds, their rows and transactions.

    `sites` is the number of destinations with rows in these ticks.
    """

    ended: float
    took: float
    rows: int
    sites: int
    transactions: int = 1


def pause_after(recent: Sequence[Taken], longest: float) -> float:
    """Return the seconds to wait after the last of the *recent* ticks; *longest* at most.

    A tick has a fixed cost at the source and at every site with rows in it. Each row has a cost there too. So the
    pause grows with the product of the row rate and the number of sites.

    The duration of ticks is no measure of load. After a longer pause a tick holds more rows and takes longer, so pauses
    would grow by themselves. But the pause is at least the median duration, which leaves half of the time to other
    work. The median ignores a single tick that a slow disk delayed.
    """
    return min(max(_for_load(recent), median_low(tick.took for tick in recent), SOON), longest)


def may_notify(recent: Sequence[Taken]) -> bool:
    """Return whether each transaction may notify the server, so that ticks need neither pauses nor looks.

    Notifying transactions commit one after the other, each with a wait for the disk. A tick waits for the disk too, so
    the median duration of ticks is the measure of that wait. The share of such waits in all time must stay small.
    Otherwise the notifications themselves would hold the rate of transactions low, and the load would look light.
    """
    rate = _rate(recent, [tick.transactions for tick in recent])
    share = rate * median_low(tick.took for tick in recent)
    return rate <= _FEW_TRANSACTIONS and share <= _NOTIFYING_SHARE and _for_load(recent) <= _SHORT_PAUSE


def _for_load(recent: Sequence[Taken]) -> float:
    rate = _rate(recent, [tick.rows for tick in recent])
    # The unit is the cost at the source and at one site, for a tick and for a row.
    times = (1 + fmean(tick.sites for tick in recent)) / 2
    return _PER_ROW_RATE * max(rate * times - _EASY, 0.0) * times


def _rate(recent: Sequence[Taken], counts: Sequence[int]) -> float:
    span = recent[-1].ended - recent[0].ended
    return sum(counts[1:]) / span if span > 0 else 0.0


def longer(wait: float, longest: float) -> float:
    """Return the wait after one of *wait* seconds that ended without an entry: twice as long, and *longest* at most."""
    return min(max(2 * wait, SOON), longest)


def rest_after(took: float) -> float:
    """Return the seconds until the next save of the sessions after a save of *took* seconds.

    So saves take at most a tenth of the time. While a transaction holds a database snapshot, old row versions
    accumulate, and each save takes longer. A very long save waited for something else, such as a standby server, so
    the rest is never above `LONGEST_REST`.
    """
    return min(9 * took, LONGEST_REST)
