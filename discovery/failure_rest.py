"""The rest of a server after a failure: it doubles with each failure in a row. Pure."""

from typing import Final

from queues.backoff import Backoff

#: The longest rest, in terms of the lease. Work for so long between two failures ends their row.
_LONGEST: Final = 30


class FailureRest:
    """The rests of one server, of one *ttl* seconds at first; *now* is always in monotonic seconds."""

    def __init__(self, ttl: float, now: float) -> None:
        """Begin without a failure."""
        self._longest = _LONGEST * ttl
        self._backoff = Backoff(ttl, self._longest)
        self._failures = 0
        self._until = now

    def begin(self, now: float) -> float:
        """Rest after a failure; return the seconds."""
        self._failures = 1 if now - self._until > self._longest else self._failures + 1
        seconds = self._backoff.delay_seconds(self._failures)
        self._until = now + seconds
        return seconds

    def is_over(self, now: float) -> bool:
        """Return whether the server takes part again."""
        return now >= self._until
