"""One reading for all calls of one moment, so that a slow database is not read several times at once."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

Found = TypeVar("Found")


class SharedReading(Generic[Found]):
    """Calls *read* in the thread of the first caller; further callers wait for the result of that call."""

    def __init__(self, read: Callable[[], Found], patience: float) -> None:
        """Let a further caller wait at most *patience* seconds."""
        self._read = read
        self._patience = patience
        self._lock = threading.Lock()
        self._running: Future[Found | None] | None = None
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """The number of callers that wait for the reading of another one."""
        return self._waiting

    def get(self) -> Found | None:
        """Return the result of *read*; None if another caller's reading failed or does not end in time."""
        with self._lock:
            other, mine = self._running, Future[Found | None]()
            if other is None:
                self._running = mine
            else:
                self._waiting += 1
        return self._lead(mine) if other is None else self._follow(other)

    def _lead(self, mine: "Future[Found | None]") -> Found:
        found = None
        try:
            found = self._read()
        finally:
            with self._lock:
                self._running = None
            mine.set_result(found)
        return found

    def _follow(self, other: "Future[Found | None]") -> Found | None:
        try:
            return other.result() if wait([other], self._patience).done else None
        finally:
            with self._lock:
                self._waiting -= 1
