"""Tell which of many failures a log needs, and when the work succeeds again. Pure."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

#: The seconds after the first failure until the log tells the row again. Each later pause is twice as long.
FIRST_PAUSE: Final = 60.0
#: The longest such pause, in seconds.
LONGEST_PAUSE: Final = 3600.0
#: The most different sentences that are told at once.
_MOST_SENTENCES: Final = 8


@dataclass(frozen=True, slots=True)
class FailureRow:
    """Failures in a row: their number, and the seconds since the first one."""

    failures: int
    seconds: float


class FailureLog:
    """One row of failures of several works that share a cause, such as threads that use the same database."""

    def __init__(self) -> None:
        """Begin without a failure."""
        self._failing: set[Hashable] = set()
        self._told: set[str] = set()
        self._failures = 0
        self._since = self._due = 0.0
        self._pause = FIRST_PAUSE

    def note(self, work: Hashable, words: str, now: float) -> FailureRow | None:
        """Note a failure of *work* at the time *now*; return the row if the log should tell of this failure.

        The log tells new *words* at once, and known ones only after a pause.
        """
        if not self._failures:
            self._since, self._due, self._pause = now, now + FIRST_PAUSE, FIRST_PAUSE
        self._failures += 1
        self._failing.add(work)
        is_due = now >= self._due
        if is_due:
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            self._due = now + self._pause
        elif words in self._told or len(self._told) >= _MOST_SENTENCES:
            return None
        self._told.add(words)
        return self._row(now)

    def end(self, work: Hashable, now: float) -> FailureRow | None:
        """Note a success of *work*; return the row if the success ends the row, because no other work fails."""
        self.forget(work)
        if self._failing or not self._failures:
            return None
        row = self._row(now)
        self._failures = 0
        self._told.clear()
        return row

    def forget(self, work: Hashable) -> None:
        """Expect no success of *work*, which has ended."""
        self._failing.discard(work)

    def _row(self, now: float) -> FailureRow:
        return FailureRow(self._failures, round(now - self._since, 1))
