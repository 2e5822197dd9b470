"""How long to wait before a server does again what costs the database something. Pure."""

from typing import Final

#: The shortest pause, in seconds.
SOON: Final = 0.002
#: A tick that took this long to take is followed by a pause as long, in seconds.
_QUICK: Final = 0.002


def pause_after(took: float, longest: float) -> float:
    """Return the seconds to wait after a tick that it took *took* seconds to take; *longest* at most.

    What a tick costs does not depend on how many entries it holds, here and at each sink. As the database and the
    machine get busier taking one gets slower, and the share of the time that goes into ticks is to get smaller: so the
    pause grows faster than the time that a tick takes.
    """
    return min(max(took * took / _QUICK, SOON), longest)


def rest_after(took: float) -> float:
    """Return the seconds to leave the sessions' rows alone after it took *took* to save them: nine tenths of the time.

    While somebody holds a snapshot none of their old versions can be removed, and finding the newest takes longer and
    longer.
    """
    return 9 * took
