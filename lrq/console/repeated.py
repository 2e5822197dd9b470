"""Repeat a reading in one thread for all tabs of the console: often while a page is looked at."""

import threading
from collections.abc import Callable
from typing import Final

from queues.clock import Clock

#: Seconds between two readings while a page is open, and otherwise.
WATCHED: Final = 3.0
UNWATCHED: Final = 10.0
#: A page counts as looked at for this time after its last request, in seconds.
_ATTENTION: Final = 30.0
_GOODBYE: Final = 2.0
#: Readings take at most this share of the time, unless they take longer than `_LONGEST_PAUSE` allows.
SHARE: Final = 0.05
_LONGEST_PAUSE: Final = 20.0


def pause_after(took: float, *, is_watched: bool) -> float:
    """Return the seconds between a reading that *took* so long and the next one; a slow one is repeated less. Pure."""
    return max(WATCHED if is_watched else UNWATCHED, min(took / SHARE, _LONGEST_PAUSE))


class Repeated:
    """Calls *read* again and again from `start` to `stop`, and *on_change* after each call, in its own thread."""

    def __init__(self, name: str, read: Callable[[], None], on_change: Callable[[], None], clock: Clock) -> None:
        self._name = name
        self._read = read
        self._on_change = on_change
        self._clock = clock
        self._began: float | None = None
        self._attention = 0.0
        self._stopping = threading.Event()
        self._is_asked = False
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the thread unless it runs; the first reading begins at once."""
        with self._lock:
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def attend(self) -> None:
        """Note that a page is looked at."""
        was = self._is_watched()
        self._attention = self._clock.monotonic()
        if not was:
            self._wake.set()

    def refresh(self) -> None:
        """Read soon, after an action."""
        self._is_asked = True
        self._wake.set()

    def overdue(self) -> float:
        """Return the seconds since the reading that is under way began; 0 between two readings."""
        began = self._began
        return 0.0 if began is None else self._clock.monotonic() - began

    def ask_to_stop(self) -> None:
        """Begin no further reading."""
        self._stopping.set()
        self._wake.set()

    def stop(self) -> None:
        """End the thread after its present reading; one without an end is not waited for."""
        self.ask_to_stop()
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_GOODBYE)

    def read(self) -> None:
        """Read once; the thread calls this."""
        self._began = self._clock.monotonic()
        try:
            self._read()
        finally:
            self._began = None

    def _run(self) -> None:
        while not self._stopping.is_set():
            began, self._is_asked = self._clock.monotonic(), False
            self.read()
            ended = self._clock.monotonic()
            self._on_change()
            self._rest(ended, ended - began)

    def _rest(self, ended: float, took: float) -> None:
        """Wait until the next reading is due; a new page shortens the wait, but not that after a slow reading."""
        while not (self._stopping.is_set() or self._is_asked):
            left = ended + pause_after(took, is_watched=self._is_watched()) - self._clock.monotonic()
            if left <= 0:
                return
            self._clock.wait(self._wake, left)
            self._wake.clear()

    def _is_watched(self) -> bool:
        return self._clock.monotonic() - self._attention < _ATTENTION
