"""The requests that a server has passed on to the leader, without an answer yet: bounded for all its streams."""

import threading
from typing import Final

from lr_server.ingest.waiting import Room

#: The most requests under way at a server, and their bytes. The limits of one stream alone would allow 2 GiB.
UNDER_WAY: Final = Room(65_536, 256 * 1024 * 1024)


class UnderWay:
    """Counts requests; for any threads. The first requests may be on their way, however large."""

    def __init__(self, limits: Room = UNDER_WAY) -> None:
        """Begin without a request."""
        self._limits = limits
        self._guard = threading.Lock()
        self._requests = self._size = 0

    def enter(self, more: Room) -> str:
        """Count *more* requests; return why they cannot go on, empty if they do."""
        with self._guard:
            requests, most = self._requests, self._limits
            if requests and (requests + more.requests > most.requests or self._size + more.size > most.size):
                return f"as many requests as may be under way ({requests}) wait for the leader: send this later"
            self._requests += more.requests
            self._size += more.size
            return ""

    def leave(self, answered: Room) -> None:
        """Note the answers to requests, or their end without one."""
        with self._guard:
            self._requests -= answered.requests
            self._size -= answered.size
