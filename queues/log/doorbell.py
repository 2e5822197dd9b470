"""A bell from those who transmit to the server, where both are in one process: it saves the wait for the next poll."""

import threading
from weakref import WeakSet

_listeners: dict[str, "WeakSet[Bell]"] = {}
_guard = threading.Lock()


class Bell:
    """Rung when something was transmitted on *branch*; the transaction commits a little later, or not at all."""

    def __init__(self, branch: str) -> None:
        self.rung = threading.Event()
        with _guard:
            _listeners.setdefault(branch, WeakSet()).add(self)


def ring(branch: str) -> None:
    """Wake the server that reads this branch, if it is in this process."""
    if branch in _listeners:
        for bell in tuple(_listeners[branch]):
            bell.rung.set()
