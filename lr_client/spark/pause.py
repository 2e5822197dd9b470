"""Pauses of an idle stream, which Spark otherwise polls a hundred times a second."""

import threading
from typing import Final

from queues.clock import SYSTEM_CLOCK

_QUICK: Final = 0.005
_IDLE: Final = 0.2


class Pause:
    """Pauses that double from 5 ms to 200 ms."""

    def __init__(self) -> None:
        """Begin with the shortest pause."""
        self._seconds = _QUICK

    def wait(self) -> None:
        """Wait, and double the next pause."""
        SYSTEM_CLOCK.wait(threading.Event(), self._seconds)
        self._seconds = min(2 * self._seconds, _IDLE)

    def reset(self) -> None:
        """Begin again with the shortest pause."""
        self._seconds = _QUICK
