"""The window of a stream, shared by the sending thread and the thread that reads acknowledgements."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lr_server.protocol.window import Window
from queues.clock import Clock


class Inflight:
    """Admit frames while the window has room; for one sender and one reader of acknowledgements."""

    def __init__(self, *, max_frames: int, max_bytes: int, clock: Clock) -> None:
        self._clock = clock
        #: The time of the last frame that entered an empty window (monotonic seconds).
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
        """Change the work in this context, and begin with an empty window at its end.

        The numbers of the new frames are of another kind: sequence numbers or rows. No frame is admitted meanwhile, so
        old and new numbers never share a window.
        """
        with self._changed:
            yield
            self._window = self._empty()
            self._changed.notify_all()

    def admit(self, end: int, size: int, still_wanted: Callable[[], bool]) -> bool:
        """Wait for room, then count the frame; return False once *still_wanted* returns False."""
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
        """Wait as long as `Window.gathers` asks for more rows in a frame of *size* bytes."""
        with self._changed:
            while self._window.gathers(size) and still_wanted():
                self._changed.wait(0.5)

    def ack(self, upto: int) -> None:
        """Remove the acknowledged frames up to *upto* from the window."""
        with self._changed:
            if self._window.ack(upto):
                self._changed.notify_all()

    def wake(self) -> None:
        """Wake the sender, so that it calls its `still_wanted` again."""
        with self._changed:
            self._changed.notify_all()
