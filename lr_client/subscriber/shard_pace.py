"""The pace of a listener, which decides whether it pays to share the entries between two barriers. Pure."""

from typing import Final

#: About the time that all shards of a queue need to meet at a barrier, in seconds. Shard 0 delivers the entries up to
#: the next barrier alone if the listener needs no longer for them.
MEETING: Final = 0.02


class Pace:
    """The listener's seconds for an entry, of which each call counts half of those before."""

    def __init__(self) -> None:
        """Know no call yet."""
        self._seconds: float | None = None

    def note(self, entries: int, seconds: float) -> None:
        """Note a call that took *seconds* for *entries*."""
        each = seconds / entries
        self._seconds = each if self._seconds is None else (self._seconds + each) / 2

    def stretch(self, most: int) -> int:
        """Return the entries that the listener applies during a meeting, *most* at most; 0 before the first call."""
        if self._seconds is None:
            return 0
        return most if self._seconds * most <= MEETING else int(MEETING / self._seconds)
