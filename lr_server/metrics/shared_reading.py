"""One reading for all calls of one moment, so that a slow database is not read several times at once."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

Found = TypeVar("Found")


class SharedReading(Generic[Found]):
    """Calls *read* in a thread of its own; the callers of one moment wait for the result of one call."""

    def __init__(self, read: Callable[[], Found], patience: float) -> None:
        """Let a caller wait at most *patience* seconds."""
        self._read = read
        self._patience = patience
        self._lock = threading.Lock()
        self._running: Future[Found] | None = None
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """The number of callers that wait."""
        return self._waiting

    def get(self) -> Found | None:
        """Return the result of *read*, or raise its error; None if it does not end in time."""
        with self._lock:
            running = self._running
            if running is None:
                running = Future[Found]()
                threading.Thread(target=self._lead, args=(running,), name="lrq-reading", daemon=True).start()
                self._running = running
            self._waiting += 1
        try:
            return running.result() if wait([running], self._patience).done else None
        finally:
            with self._lock:
                self._waiting -= 1

    def _lead(self, mine: "Future[Found]") -> None:
        try:
            found = self._read()
        except BaseException as error:  # noqa: BLE001 - raised by each caller
            self._end()
            mine.set_exception(error)
        else:
            self._end()
            mine.set_result(found)

    def _end(self) -> None:
        with self._lock:
            self._running = None
