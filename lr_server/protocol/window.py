"""The frames in flight to one sink: sent and not acknowledged. After raft's `Inflights`. Pure.

The window is the smaller one of the source's own limits and of the room that the sink tells.
"""

from collections import deque
from typing import NamedTuple

from queues.errors import UsageError

#: Small frames in flight that are not delayed: one that the sink works on, and one on its way.
_SMALL = 2


class Frame(NamedTuple):
    """One frame in flight: its last sequence number (or row number of a snapshot), and its size in bytes."""

    end: int
    size: int


class Window:
    """A limit of the frames and bytes in flight; an empty window admits one frame of any size.

    `room` is the sink's, in bytes beyond the last acknowledged frame; None for no limit. Frames without
    entries need no room; for the others the caller asks `has_room`.

    Invariants for the frames f1 .. fn in flight:

    * acked < f1.end <= f2.end <= ... <= fn.end
    * n <= max_frames
    * bytes == f1.size + ... + fn.size
    * bytes - fn.size < max_bytes: only the newest frame may reach beyond the limit
    """

    __slots__ = ("_bytes", "_frames", "_max_bytes", "_max_frames", "room")

    def __init__(self, *, max_frames: int, max_bytes: int, room: int | None = None) -> None:
        """Begin with nothing in flight; both limits are at least 1."""
        if max_frames < 1 or max_bytes < 1:
            raise UsageError(
                f"a window of {max_frames} frames and {max_bytes} bytes lets nothing through: allow at least 1"
            )
        self._max_frames = max_frames
        self._max_bytes = max_bytes
        self._frames: deque[Frame] = deque()
        self._bytes = 0
        self.room = room

    def __len__(self) -> int:
        """How many frames are in flight."""
        return len(self._frames)

    @property
    def bytes(self) -> int:
        """How many bytes are in flight."""
        return self._bytes

    @property
    def oldest_bytes(self) -> int:
        """The bytes of the oldest frame in flight; 0 if there is none."""
        return self._frames[0].size if self._frames else 0

    @property
    def full(self) -> bool:
        """Whether the next frame must wait for an acknowledgement."""
        return len(self._frames) >= self._max_frames or self._bytes >= self._max_bytes

    @property
    def has_room(self) -> bool:
        """Whether the sink has room beyond the bytes in flight; a frame may reach beyond it, as beyond the limit."""
        return self.room is None or self._bytes < self.room

    @property
    def fill(self) -> float:
        """The used share of the window: the larger one of frames and bytes; 1 or more when full."""
        return max(len(self._frames) / self._max_frames, self._bytes / self._max_bytes)

    @property
    def percent(self) -> int:
        """The used share of the window for people: 0 to 100, rounded down to tens."""
        return int(min(self.fill, 1.0) * 10) * 10

    def gathers(self, size: int) -> bool:
        """Return whether to gather more rows for a frame: `_SMALL` frames or more, below *size* in sum, are in flight.

        After Nagle (RFC 896): a slow sink gets fewer, larger frames, and a fast sink gets each frame at once.
        """
        return len(self._frames) >= _SMALL and self._bytes < size

    def add(self, end: int, size: int) -> None:
        """Record a sent frame; raise `UsageError` when the window is full or *end* goes backwards."""
        if self.full:
            raise UsageError(f"{len(self)} frames with {self._bytes} bytes are in flight: wait for an acknowledgement")
        if self._frames and end < self._frames[-1].end:
            raise UsageError(f"a frame up to {end} cannot follow one up to {self._frames[-1].end}")
        self._frames.append(Frame(end, size))
        self._bytes += size

    def ack(self, upto: int) -> int:
        """Remove the frames that end at or below *upto* (cumulative); return their number.

        A repeated or late acknowledgement removes nothing.
        """
        freed = 0
        while self._frames and self._frames[0].end <= upto:
            self._bytes -= self._frames.popleft().size
            freed += 1
        return freed
