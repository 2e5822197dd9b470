"""All unanswered requests of a stream go one way: to this server's store, or to one other server.

Otherwise a later request could be decided before an earlier one, as a gap.
"""

import threading
from typing import Final

#: The way to this server's own store.
HERE: Final = ""


class OneWay:
    """Counts the unanswered requests of one stream, and knows their way; for any threads."""

    def __init__(self) -> None:
        """Begin without a request."""
        self._guard = threading.Lock()
        self._way = HERE
        self._open = 0

    def enter(self, way: str, requests: int = 1) -> bool:
        """Count requests on *way*, `HERE` or an endpoint; return False while others are unanswered on another way."""
        with self._guard:
            if self._open and way != self._way:
                return False
            self._way = way
            self._open += requests
            return True

    def leave(self, requests: int = 1) -> None:
        """Note that so many requests are answered."""
        with self._guard:
            self._open -= requests
