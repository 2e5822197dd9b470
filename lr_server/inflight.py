"""The window of a stream, shared by the thread that sends and the one that reads acknowledgements."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lr_server.window import Window
from queues.clock import Clock


class Inflight:
    """Lets frames through while the window has room; for one sender and one reader of acknowledgements."""

    def __init__(self, *, max_frames: int, max_bytes: int, clock: Clock) -> None:
        self._clock = clock
        #: When the window was last empty and then got a frame (monotonic).
        self.since = clock.monotonic()
        self._limits = (max_frames, max_bytes)
        self._window = self._empty()
        self._changed = threading.Condition()

    def _empty(self) -> Window:
        return Window(max_frames=self._limits[0], max_bytes=self._limits[1])

    @property
    def busy(self) -> bool:
        """Whether anything is in flight."""
        return len(self._window) > 0

    @contextmanager
    def begun_anew(self) -> Iterator[None]:
        """Count anew from what is wanted at the end of the context on: its numbers are of another kind.

        Nothing is let through meanwhile, so that nobody counts the first of them with the last of the old.
        """
        with self._changed:
            yield
            self._window = self._empty()
            self._changed.notify_all()

    def admit(self, end: int, size: int, still_wanted: Callable[[], bool]) -> bool:
        """Wait until there is room for a frame, and count it; False when it is no longer wanted."""
        with self._changed:
            while self._window.full and still_wanted():
                self._changed.wait(0.5)
            if not still_wanted():
                return False
            if not len(self._window):
                self.since = self._clock.monotonic()
            self._window.add(end, size)
            return True

    def gather(self, size: int, still_wanted: Callable[[], bool]) -> None:
        """Wait while more is to be gathered for a frame of *size* bytes; see `Window.gathers`."""
        with self._changed:
            while self._window.gathers(size) and still_wanted():
                self._changed.wait(0.5)

    def ack(self, upto: int) -> None:
        """Make room for what was acknowledged."""
        with self._changed:
            if self._window.ack(upto):
                self._changed.notify_all()

    def wake(self) -> None:
        """Let the one who waits ask again whether its frame is wanted."""
        with self._changed:
            self._changed.notify_all()
