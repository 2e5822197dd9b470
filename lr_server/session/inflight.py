"""The window of a stream, shared by the sending side and the side that reads acknowledgements."""

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Final

from lr_server.protocol.window import Window
from queues.clock import Clock
from sink.rests import Bell, Rest

#: The longest rest of a sender that waits for a change, in seconds.
_LOOK: Final = 0.5


class Inflight:
    """Admit frames while the window has room; for one sender and one reader of acknowledgements.

    A wait is yielded as a `Rest`; `bell` ends it.
    """

    def __init__(self, *, max_frames: int, max_bytes: int, clock: Clock, room: int | None = None) -> None:
        """Begin with an empty window; *room* is that of the sink's answer to the negotiation."""
        self._clock = clock
        #: The time of the last frame that entered an empty window (monotonic seconds).
        self.since = clock.monotonic()
        self._limits = (max_frames, max_bytes)
        self._window = self._empty(room)
        self._guard = threading.Lock()
        self.bell = Bell()
        # The sender waits for a change of the window. The other rests must last.
        self._is_awaited = False

    def _empty(self, room: int | None) -> Window:
        return Window(max_frames=self._limits[0], max_bytes=self._limits[1], room=room)

    @property
    def busy(self) -> bool:
        """Whether anything is in flight."""
        return len(self._window) > 0

    @property
    def bytes(self) -> int:
        """The bytes in flight."""
        with self._guard:
            return self._window.bytes

    @property
    def oldest_bytes(self) -> int:
        """The bytes of the oldest frame in flight, as `Window.oldest_bytes`."""
        with self._guard:
            return self._window.oldest_bytes

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
        with self._guard:
            yield
            self._window = self._empty(self._window.room)
        self.bell.set()

    def admit(
        self, end: int, size: int, still_wanted: Callable[[], bool], *, in_room: bool = False, patience: float = 0.0
    ) -> Generator[Rest, None, bool]:
        """Wait until the window admits a frame, then count the frame; return False once *still_wanted* returns False.

        With *in_room* the frame also waits for room at the sink. After *patience* seconds with nothing in flight that
        could bring the room back, return False too.
        """
        idle_since: float | None = None
        while True:
            self.bell.clear()
            with self._guard:
                self._is_awaited = False
                if not still_wanted():
                    return False
                if not self._window.full and (self._window.has_room or not in_room):
                    if not len(self._window):
                        self.since = self._clock.monotonic()
                    self._window.add(end, size)
                    return True
                self._is_awaited = True
            now = self._clock.monotonic()
            if self.busy:
                idle_since = None
            elif idle_since is None:
                idle_since = now
            elif now - idle_since >= patience:
                return False
            left = _LOOK if idle_since is None else patience - (now - idle_since)
            yield Rest(min(left, _LOOK))

    def gather(self, size: int, still_wanted: Callable[[], bool]) -> Iterator[Rest]:
        """Wait as long as `Window.gathers` asks for more rows in a frame of *size* bytes."""
        while True:
            self.bell.clear()
            with self._guard:
                self._is_awaited = False
                if not (self._window.gathers(size) and still_wanted()):
                    return
                self._is_awaited = True
            yield Rest(_LOOK)

    def ack(self, upto: int) -> None:
        """Remove the acknowledged frames up to *upto* from the window."""
        with self._guard:
            if self._window.ack(upto):
                self._wake()

    def heed(self, room: int | None) -> None:
        """Heed the *room* that the sink tells with an acknowledgement; call `ack` afterwards."""
        with self._guard:
            had_room, self._window.room = self._window.has_room, room
            if self._window.has_room is not had_room:
                self._wake()

    def _wake(self) -> None:
        if self._is_awaited:
            self.bell.set()
