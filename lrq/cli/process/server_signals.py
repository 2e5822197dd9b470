"""The signals of `lrq serve`: SIGTERM and Ctrl-C stop the server, and SIGHUP makes it read its peers again."""

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final

from lrq.cli.process.first_signals import hung_up

#: The longest wait for a signal that another thread of the process has got, in seconds.
_LONGEST_WAIT: Final = 1.0


class StopError(BaseException):
    """A signal asked a server to stop that had not begun to work."""


class ServerSignals:
    """Orders for a server. The first SIGTERM or SIGINT stops it in order, and a second one ends it at once.

    SIGHUP reads the peers again. While the server works, a signal is an order in a queue: an exception could be lost.
    Before that, a signal raises `StopError`.
    """

    def __init__(self) -> None:
        """Take over the signals."""
        self._orders: SimpleQueue[bool] = SimpleQueue()
        self._is_serving = False
        signal.signal(signal.SIGHUP, lambda _number, _frame: self._orders.put(True))
        if hung_up():
            self._orders.put(True)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    def serve(self, reload: Callable[[], None]) -> None:
        """Wait for the signal to stop; call *reload* after each SIGHUP."""
        self._is_serving = True
        while self._next():
            reload()

    def reload_meanwhile(self, reload: Callable[[], None]) -> None:
        """Call *reload* after each SIGHUP, in another thread, until `spare_end`."""

        def run() -> None:
            while self._orders.get():
                reload()

        threading.Thread(target=run, name="lrq-reload", daemon=True).start()

    def spare_end(self) -> None:
        """Let the first signal change nothing from now on, because the server ends anyway."""
        self._is_serving = True
        self._orders.put(False)

    def _next(self) -> bool:
        """Wait for the next order. A signal that another thread has got ends no wait here, so the wait has a limit."""
        while True:
            with suppress(Empty):
                return self._orders.get(timeout=_LONGEST_WAIT)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        if not self._is_serving:
            raise StopError
        self._orders.put(False)
