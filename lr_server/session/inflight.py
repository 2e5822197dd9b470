"""The window of a stream, shared by the sending thread and the thread that reads acknowledgements."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lr_server.protocol.window import Window
from queues.clock import Clock


class Inflight:
    """Admit frames while the window has room; for one sender and one reader of acknowledgements."""

    def __init__(self, *, max_frames: int, max_bytes: int, clock: Clock, room: int | None = None) -> None:
        """Begin with an empty window; *room* is that of the sink's answer to the negotiation."""
        self._clock = clock
        #: The time of the last frame that entered an empty window (monotonic seconds).
        self.since = clock.monotonic()
        self._limits = (max_frames, max_bytes)
        self._window = self._empty(room)
        self._changed = threading.Condition()

    def _empty(self, room: int | None) -> Window:
        return Window(max_frames=self._limits[0], max_bytes=self._limits[1], room=room)

    @property
    def busy(self) -> bool:
        """Whether anything is in flight."""
        return len(self._window) > 0

    @property
    def has_room(self) -> bool:
        """Whether the sink has room for further entries."""
        return self._window.has_room

    @property
    def percent(self) -> int:
        """The used share of the window, as `Window.percent`."""
        return self._window.percent

    @contextmanager
    def begun_anew(self) -> Iterator[None]:
        """Change the work in this context, and begin with an empty window at its end.

        The numbers of the new frames are of another kind: sequence numbers or rows. No frame is admitted meanwhile, so
        old and new numbers never share a window.
        """
        with self._changed:
            yield
            self._window = self._empty(self._window.room)
            self._changed.notify_all()

    def admit(
        self, end: int, size: int, still_wanted: Callable[[], bool], *, in_room: bool = False, patience: float = 0.0
    ) -> bool:
        """Wait until the window admits a frame, then count the frame; return False once *still_wanted* returns False.

        With *in_room* the frame also waits for room at the sink. After *patience* seconds with nothing in flight that
        could bring the room back, return False too.
        """
        with self._changed:
            idle_since: float | None = None
            while still_wanted() and (self._window.full or (in_room and not self._window.has_room)):
                now = self._clock.monotonic()
                if self.busy:
                    idle_since = None
                elif idle_since is None:
                    idle_since = now
                elif now - idle_since >= patience:
                    return False
                left = 0.5 if idle_since is None else patience - (now - idle_since)
                self._changed.wait(min(left, 0.5))
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

    def heed(self, room: int | None) -> None:
        """Heed the *room* that the sink tells with an acknowledgement; call `ack` afterwards."""
        with self._changed:
            had_room, self._window.room = self._window.has_room, room
            if self._window.has_room is not had_room:
                self._changed.notify_all()

    def wake(self) -> None:
        """Wake the sender, so that it calls its `still_wanted` again."""
        with self._changed:
            self._changed.notify_all()
