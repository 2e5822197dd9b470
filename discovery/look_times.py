"""The time until a server looks at the other servers of its site again. Pure.

A server alone looks as often as it renews its row. Otherwise the server looks each second, at least, and at the moment
of an expiry. So after a kill the ranges have new leaders within 3/4 of a lease, the term of a row.
"""

from typing import Final

from queues.leadership import ServersView

#: The longest time between two looks while other servers live, in seconds.
LOOK: Final = 1.0
#: The time between two looks while another server must release a range first, in seconds.
_AWAIT: Final = 0.2
#: The pause after another server's expiry, before the look, in seconds.
_AFTER_EXPIRY: Final = 0.01


def until_look(view: ServersView, me: str, *, renewal: float, awaited: bool) -> float:
    """Return the seconds until server *me* looks again after *view*.

    *renewal* is the time until its next renewal, which looks too. *awaited*: another server must release a range before
    this one can claim it.
    """
    leaders = {row.server for row in view.ranges}
    others = [row for row in view.living.values() if row.server != me]
    expiries = [(row.expires_us - view.now_us) / 1e6 + _AFTER_EXPIRY for row in others if row.server in leaders]
    pauses: list[float] = [renewal, *expiries]
    if others:
        pauses.append(LOOK)
    if awaited:
        pauses.append(_AWAIT)
    return min(pauses)


def until_retry(ttl: float) -> float:
    """Return the seconds until the next look after a failed one, or without a row; *ttl* is that of the lease."""
    return min(ttl / 10, LOOK)
