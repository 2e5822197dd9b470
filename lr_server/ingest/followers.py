"""Whether the database has enough synchronous standby servers for producers."""

import threading
from collections.abc import Callable
from typing import Final

from discovery.threads import watched
from queues.clock import Clock
from queues.errors import LrqError
from queues.words import in_words

#: Returns the number of synchronous standby servers of the database; None if that is unknown.
Followers = Callable[[], int | None]
#: The seconds between two looks while requests come.
_FRESH: Final = 1.0


def lack(found: int | None, required: int, lacking_for: float, patience: float) -> str:
    """Return why requests are refused for want of standby servers; empty if they are not. Pure.

    *lacking_for* are the seconds since the last moment with enough of them, *patience* the seconds that are borne.
    """
    if required <= 0 or (found is not None and found >= required) or lacking_for < patience:
        return ""
    have = "an unknown number of" if found is None else str(found)
    return (
        f"the database has {have} synchronous standby servers, and require_followers is {required}: "
        "start the standby servers, or lower require_followers"
    )


class FollowerWatch:
    """Looks at the standby servers while requests or probes come; any thread may ask."""

    def __init__(self, look: Followers, required: int, patience: float, clock: Clock) -> None:
        self._look = look
        self._required = required
        self._patience = patience
        self._clock = clock
        self._guard = threading.Lock()
        self._found: int | None = None
        # Why the last look has failed.
        self._problem = ""
        # At the beginning nothing is known, and a lack counts at once.
        self._looked_at = self._enough_at = float("-inf")
        self._last = ""
        self._looker: threading.Thread | None = None

    def begin(self) -> None:
        """Trust no earlier look."""
        with self._guard:
            self._looked_at = self._enough_at = float("-inf")
            self._last = ""

    def last_refusal(self) -> str:
        """Return the result of the last `refusal` at once; if that is old, a thread asks again."""
        is_old = self._required > 0 and self._clock.monotonic() - self._looked_at >= _FRESH
        if is_old and (self._looker is None or not self._looker.is_alive()):
            self._looker = watched("lrq-followers", self._look_again, lambda _error: None)
            self._looker.start()
        return self._last

    def refusal(self) -> str:
        """Return the sentence that refuses requests now, after a look that may wait; empty if they may be stored."""
        if self._required <= 0:
            return ""
        with self._guard:
            now = self._clock.monotonic()
            if now - self._looked_at >= _FRESH:
                self._found, self._looked_at = self._looked(), now
                if self._found is not None and self._found >= self._required:
                    self._enough_at = now
            refusal = lack(self._found, self._required, now - self._enough_at, self._patience)
            self._last = f"{refusal} ({self._problem})" if refusal and self._problem else refusal
            return self._last

    def _look_again(self) -> None:
        self.refusal()

    def _looked(self) -> int | None:
        try:
            self._problem = ""
            return self._look()
        except LrqError as error:
            self._problem = in_words(error)
            return None
