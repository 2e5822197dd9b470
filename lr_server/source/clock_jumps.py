"""Find the jumps of the wall clock beside the monotonic clock, so that no jump makes young entries old. Pure."""

from typing import Final

#: A difference of fewer seconds between two looks is no jump: clocks are corrected a little now and then.
TOLERANCE: Final = 10.0
#: The most remembered jumps. Further ones count as one with the oldest.
_MOST: Final = 100


class ClockJumps:
    """Remembers each jump ahead for as long as entries from before the jump may be young; for one thread.

    A machine that sleeps jumps too: its monotonic clock stands still meanwhile.
    """

    def __init__(self, now_us: int, monotonic: float) -> None:
        """Begin at *now_us* of the wall clock, in microseconds, and *monotonic* seconds."""
        self._difference = now_us / 1_000_000 - monotonic
        # The time and the seconds of each jump, oldest first.
        self._jumps: list[tuple[float, float]] = []

    def look(self, now_us: int, monotonic: float) -> float:
        """Compare the clocks; return the seconds of a jump since the last look, negative for one back, 0 for none."""
        difference = now_us / 1_000_000 - monotonic
        jump, self._difference = difference - self._difference, difference
        if abs(jump) < TOLERANCE:
            return 0.0
        if jump > 0:
            self._remember(monotonic, jump)
        else:
            self._take_back(-jump)
        return jump

    def seconds_ahead(self, monotonic: float, keep_seconds: float) -> float:
        """Return the seconds that the wall clock has jumped ahead in the last *keep_seconds*."""
        return sum(seconds for at, seconds in self._jumps if at >= monotonic - keep_seconds)

    def _remember(self, at: float, seconds: float) -> None:
        self._jumps.append((at, seconds))
        if len(self._jumps) > _MOST:
            (_, first), (later, second), *rest = self._jumps
            self._jumps = [(later, first + second), *rest]

    def _take_back(self, seconds: float) -> None:
        while self._jumps and seconds > 0:
            at, ahead = self._jumps.pop()
            if ahead > seconds:
                self._jumps.append((at, ahead - seconds))
            seconds -= ahead
