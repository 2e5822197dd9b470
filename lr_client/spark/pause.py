"""How long a stream that has nothing to do waits: Spark asks a hundred times a second."""

import threading
from typing import Final

from queues.clock import SYSTEM_CLOCK

_QUICK: Final = 0.005
_IDLE: Final = 0.2


class Pause:
    """Waits a little longer each time, up to a fifth of a second."""

    def __init__(self) -> None:
        """Begin quickly."""
        self._seconds = _QUICK

    def wait(self) -> None:
        """Wait, and longer the next time."""
        SYSTEM_CLOCK.wait(threading.Event(), self._seconds)
        self._seconds = min(2 * self._seconds, _IDLE)

    def reset(self) -> None:
        """Begin quickly again."""
        self._seconds = _QUICK
