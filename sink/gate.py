"""Refuse new work after close(), and wait for work in progress."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from queues.errors import TransientError


class Gate:
    """Counts the threads at work until it is closed; any number of threads may share a gate."""

    def __init__(self) -> None:
        self._open = True
        self._inside = 0
        self._changed = threading.Condition()

    @contextmanager
    def passed(self, sentence: Callable[[], str]) -> Iterator[None]:
        """Count as work for the time of the block; after `close`, raise `TransientError` with the *sentence*."""
        with self._changed:
            if self._open:
                self._inside += 1
                is_open = True
            else:
                is_open = False
        if not is_open:
            raise TransientError(sentence())
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
