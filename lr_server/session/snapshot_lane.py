"""The pace that all snapshots of one server share, with the server's clock."""

import threading
from collections.abc import Hashable, Iterable
from typing import Final

from lr_server.protocol.snapshot_pace import SnapshotPace
from queues.clock import Clock

#: A live entry may wait for the work on one frame. So frames have the bytes of so many seconds, or this size.
_FRAME_SECONDS: Final = 0.02
_SMALL_FRAME: Final = 256 * 1024


class SnapshotLane:
    """A `SnapshotPace` for the streams of one server; safe for any number of threads."""

    def __init__(self, clock: Clock, floor: int) -> None:
        """Begin without a limit; *floor* is that of `SnapshotPace`."""
        self._pace = SnapshotPace(floor)
        self._clock = clock
        # The garbage collector may end the frames of a stream in a thread that holds the guard.
        self._guard = threading.RLock()

    def note_delays(self, session: Hashable, seconds: Iterable[float]) -> None:
        """Note the *seconds* from live entries of *session* to their acknowledgements, which come now."""
        now = self._clock.monotonic()
        with self._guard:
            for each in seconds:
                self._pace.note_entry(session, now - each, now)

    def frame_bytes(self, most: int) -> int:
        """Return the largest size of the next frame of a snapshot: *most* bytes, or less at a low pace."""
        with self._guard:
            rate = self._pace.rate
        return most if rate is None else min(most, max(_SMALL_FRAME, int(_FRAME_SECONDS * rate)))

    def pause(self) -> float:
        """Return the seconds until the next frame of a snapshot may leave; 0 for at once."""
        with self._guard:
            return self._pace.pause(self._clock.monotonic())

    def note_sent(self, stream: Hashable, size: int) -> None:
        """Note that a frame of *size* bytes leaves on *stream*."""
        with self._guard:
            self._pace.note_sent(stream, size, self._clock.monotonic())

    def note_all_acknowledged(self, stream: Hashable) -> None:
        """Note that no frame of a snapshot is in flight on *stream*."""
        with self._guard:
            self._pace.note_all_acknowledged(stream, self._clock.monotonic())
