"""What is in flight to one sink: sent, not acknowledged. After raft's `Inflights`. Pure."""

from collections import deque
from typing import NamedTuple

from queues.errors import UsageError

#: So many frames may be in flight, however small: one that the sink works on, one on its way.
_SMALL = 2


class Frame(NamedTuple):
    """One frame in flight: its last sequence number (of a snapshot: row number), and its size."""

    end: int
    size: int


class Window:
    """Bounds what is in flight by frames and by bytes; an empty window lets one frame of any size through.

    Invariants, for the frames f1 .. fn that are in flight:

    * acked < f1.end <= f2.end <= ... <= fn.end
    * n <= max_frames
    * bytes == f1.size + ... + fn.size
    * bytes - fn.size < max_bytes: only the newest frame may reach beyond the limit
    """

    __slots__ = ("_bytes", "_frames", "_max_bytes", "_max_frames")

    def __init__(self, *, max_frames: int, max_bytes: int) -> None:
        """Begin with nothing in flight; both limits are at least 1."""
        if max_frames < 1 or max_bytes < 1:
            raise UsageError(
                f"a window of {max_frames} frames and {max_bytes} bytes lets nothing through: allow at least 1"
            )
        self._max_frames = max_frames
        self._max_bytes = max_bytes
        self._frames: deque[Frame] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        """How many frames are in flight."""
        return len(self._frames)

    @property
    def bytes(self) -> int:
        """How many bytes are in flight."""
        return self._bytes

    @property
    def full(self) -> bool:
        """Nothing may be sent before something is acknowledged."""
        return len(self._frames) >= self._max_frames or self._bytes >= self._max_bytes

    @property
    def fill(self) -> float:
        """The share that is used, of frames or of bytes, whichever is larger; 1 or more when full."""
        return max(len(self._frames) / self._max_frames, self._bytes / self._max_bytes)

    def gathers(self, size: int) -> bool:
        """Tell whether to gather more for one frame: `_SMALL` frames are under way that together are below *size*.

        After Nagle (RFC 896): a sink that is slow gets fewer, larger frames, and one that is not gets each at once.
        """
        return len(self._frames) >= _SMALL and self._bytes < size

    def add(self, end: int, size: int) -> None:
        """Note that a frame was sent; raise `UsageError` when the window is full or *end* goes backwards."""
        if self.full:
            raise UsageError(f"{len(self)} frames with {self._bytes} bytes are in flight: wait for an acknowledgement")
        if self._frames and end < self._frames[-1].end:
            raise UsageError(f"a frame up to {end} cannot follow one up to {self._frames[-1].end}")
        self._frames.append(Frame(end, size))
        self._bytes += size

    def ack(self, upto: int) -> int:
        """Forget the frames that end at or below *upto* (cumulative); return how many that were.

        An acknowledgement that comes twice, or late, frees nothing.
        """
        freed = 0
        while self._frames and self._frames[0].end <= upto:
            self._bytes -= self._frames.popleft().size
            freed += 1
        return freed
