"""How long to wait between two ticks: short ones are quick to arrive, long ones cost less an entry. Pure."""

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
