"""Refuse new work after close(), and wait for work in progress."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from queues.errors import TransientError


class Gate:
    """Counts the threads at work until it is closed; any number of threads may share a gate."""

    def __init__(self) -> None:
        self._open = True
        self._inside = 0
        self._changed = threading.Condition()

    @contextmanager
    def passed(self, what: str) -> Iterator[None]:
        """Count as work for the time of the block; raise `TransientError`, which names *what* stops, after `close`."""
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
        """Refuse new work, and wait until all work has ended. May be called twice."""
        with self._changed:
            self._open = False
            while self._inside:
                self._changed.wait()
