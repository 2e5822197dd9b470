"""How far a snapshot is that is being built or sent: its share, its speed, the time that is left. Pure."""

from dataclasses import dataclass
from typing import Self

from queues.snapshots.states import Snapshot, SnapshotState

_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Progress:
    """`share` is between 0 and 1, the speed in rows per second, the time in seconds; None where it is not known."""

    rows: int
    share: float | None
    rows_per_second: float | None
    seconds_left: float | None

    @classmethod
    def made(cls, rows: int, of: int, seconds: float) -> Self:
        """Tell from *rows* done in *seconds*, *of* so many (0: nobody knows)."""
        speed = rows / seconds if rows and seconds > 0 else None
        if not of:
            return cls(rows, None, speed, None)
        # More than was expected: nobody knows how many more.
        left = (of - rows) / speed if speed and rows <= of else None
        return cls(rows, min(1.0, rows / of), speed, left)


def progress_of(found: Snapshot, now_us: int) -> Progress | None:
    """Return how far the present step of a snapshot is; None before and after."""
    if found.state is SnapshotState.BUILDING and found.pinned_us:
        return Progress.made(found.rows, found.expected_rows, (now_us - found.pinned_us) / _SECOND)
    if found.state is SnapshotState.READY:
        return Progress.made(found.sent_rows, found.rows, (now_us - found.updated_us) / _SECOND)
    return None


def cut_seconds(found: Snapshot, now_us: int) -> float | None:
    """Return for how long the database has held the cut of a snapshot that is being built; None of any other."""
    if found.state is SnapshotState.BUILDING and found.pinned_us:
        return max(0.0, (now_us - found.pinned_us) / _SECOND)
    return None
