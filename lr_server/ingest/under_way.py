"""The requests that a server has passed on to the leader, without an answer yet: bounded for all its streams."""

import threading
from typing import Final

from lr_server.ingest.waiting import Room

#: The most requests under way at a server, and their bytes. The limits of one stream alone would allow 2 GiB.
UNDER_WAY: Final = Room(65_536, 256 * 1024 * 1024)


class UnderWay:
    """Counts requests; for any threads. A single request may be on its way, however large."""

    def __init__(self, limits: Room = UNDER_WAY) -> None:
        """Begin without a request."""
        self._limits = limits
        self._guard = threading.Lock()
        self._requests = self._size = 0

    def enter(self, size: int) -> str:
        """Count a request of *size* bytes; return why it cannot go on, empty if it can."""
        with self._guard:
            requests, most = self._requests, self._limits
            if requests and (requests >= most.requests or self._size + size > most.size):
                return f"as many requests as may be under way ({requests}) wait for the leader: send this later"
            self._requests += 1
            self._size += size
            return ""

    def leave(self, size: int) -> None:
        """Note the answer to a request of *size* bytes, or its end without one."""
        with self._guard:
            self._requests -= 1
            self._size -= size
