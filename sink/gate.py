"""A gate before what must have ended when its owner closes the rest."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from queues.errors import TransientError


class Gate:
    """Lets threads in until it is closed; for any number of them."""

    def __init__(self) -> None:
        self._open = True
        self._inside = 0
        self._changed = threading.Condition()

    @contextmanager
    def passed(self, what: str) -> Iterator[None]:
        """Be inside for the time of the block; raise `TransientError`, which names *what* stops, once it is closed."""
        with self._changed:
            if not self._open:
                raise TransientError(f"{what} stops: try again later")
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Let nobody in any more, and wait until nobody is inside. May be called twice."""
        with self._changed:
            self._open = False
            while self._inside:
                self._changed.wait()
