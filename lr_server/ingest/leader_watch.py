"""The server that leads the log, as a server beside it sees it."""

import threading
from collections.abc import Callable, Sequence
from typing import Final

from lr_server.ingest.intake import Leader
from queues.clock import Clock
from queues.errors import LrqError

#: The seconds between two looks while requests come.
_FRESH: Final = 0.5


class LeaderWatch:
    """Any thread may call the watch; *is_me* tells whether this server leads, *look* the endpoints of the leader."""

    def __init__(self, is_me: Callable[[], bool], look: Callable[[], Sequence[str]], clock: Clock) -> None:
        self._is_me = is_me
        self._look = look
        self._clock = clock
        self._guard = threading.Lock()
        self._endpoint = ""
        self._looked_at = float("-inf")

    def __call__(self) -> Leader:
        """Return the leader now; without an endpoint while none is known."""
        if self._is_me():
            return Leader(is_me=True)
        with self._guard:
            now = self._clock.monotonic()
            if now - self._looked_at >= _FRESH:
                try:
                    self._endpoint = next(iter(self._look()), "")
                except LrqError:
                    # The producer is told that no leader is known, and tries again.
                    self._endpoint = ""
                self._looked_at = now
            return Leader(is_me=False, endpoint=self._endpoint)
