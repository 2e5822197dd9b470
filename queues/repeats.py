"""Tell the first of a row of equal failures from its repetitions, so that a log holds one traceback. Pure."""

from typing import Final

from queues.words import place_of

#: The most different failures that are remembered of one work.
_MOST: Final = 32


class Repeats:
    """Remembers the failures of each work until the work succeeds."""

    def __init__(self) -> None:
        self._failures: dict[str, set[object]] = {}

    def is_first(self, work: str, error: BaseException) -> bool:
        """Return whether *work* has failed for the first time with this class of error in this line of code."""
        known = self._failures.setdefault(work, set())
        place = place_of(error)
        if place in known:
            return False
        if len(known) >= _MOST:
            known.clear()
        known.add(place)
        return True

    def forget(self, work: str) -> None:
        """Forget the failures of *work*, which has succeeded."""
        self._failures.pop(work, None)
