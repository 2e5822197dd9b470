"""One session on the live feed: its position, its speed, and its rest until a tick has rows for it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from queues.positions import Tick

#: A speed is measured over so many seconds.
_WINDOW: Final = 1.0


@dataclass(slots=True)
class Reader:
    """A session on the feed; the feed's lock guards all fields, and is held in each call.

    `seq` is the last read sequence number. A reader that `rests` is passed over by ticks without rows for it.
    `passed` is the newest such tick since `rests_from`, the position that the session itself knows.
    """

    seq: int
    window_began: float
    drained: int = 0
    per_second: float = 0.0
    is_waiting: bool = field(default=False, init=False)
    rests: bool = field(default=False, init=False)
    rests_from: int = field(default=0, init=False)
    passed: Tick | None = field(default=None, init=False)
    _ring: Callable[[], None] | None = field(default=None, init=False)

    def wait(self, seq: int, ring: Callable[[], None], *, rests: bool) -> None:
        """Begin to wait at *seq*; `wake` calls *ring*."""
        self.is_waiting, self.rests, self.rests_from, self.passed = True, rests, seq, None
        self._ring = ring

    def end_wait(self) -> None:
        """Wait no longer."""
        # No later tick may pass over a reader that has not run yet: the reader has a tick to read.
        self.is_waiting = self.rests = False
        self._ring = None

    def wake(self) -> None:
        """End the wait, if there is one, and tell the reader."""
        ring = self._ring
        self.end_wait()
        if ring is not None:
            ring()

    def pass_over(self, tick: Tick, size: int, now: float) -> None:
        """Count *tick* as read."""
        self.passed = tick
        self.read(tick.end_seq, size, now)

    def passed_since(self, seq: int) -> Tick | None:
        """Return the newest tick that has passed over the reader since it stood at *seq*; None without such a tick."""
        return self.passed if self.passed is not None and self.rests_from == seq else None

    def read(self, seq: int, size: int, now: float) -> None:
        """Note that the reader has read *size* bytes up to *seq*."""
        self.drained += size
        self.seq = seq
        if now - self.window_began >= _WINDOW:
            self.per_second = self.drained / (now - self.window_began)
            self.drained, self.window_began = 0, now

    def speed(self, now: float) -> float:
        """Return the bytes per second of the last measurement; 0.0 for a reader that has stopped."""
        # A reader that has stopped updates no speed itself, so its stale speed would look healthy. So would a mean over
        # the pause, because the readers that wait for this one have the same pause.
        return self.per_second if now - self.window_began < 2 * _WINDOW else 0.0
