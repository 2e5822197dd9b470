"""SIGTERM and Ctrl-C of a command that runs until it is stopped."""

import signal
import threading
from types import FrameType
from typing import Final

from queues.clock import SYSTEM_CLOCK

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
#: Seconds between two looks at the work of a command.
_LOOK: Final = 0.1


class StopSignals:
    """Notes the first SIGTERM or SIGINT in `asked`; a second one ends the process at once.

    A flag, because an exception at any moment could leave a started thread without an owner. For the main thread.
    """

    def __init__(self) -> None:
        """Take over both signals."""
        self.asked = False
        self._never = threading.Event()
        for number in _SIGNALS:
            signal.signal(number, self._note)

    def rest(self) -> None:
        """Let the time until the next look pass; a signal is noted meanwhile."""
        SYSTEM_CLOCK.wait(self._never, _LOOK)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
