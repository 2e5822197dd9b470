"""The progress of building or sending a snapshot: its share, its speed, the remaining time. Pure."""

from dataclasses import dataclass
from typing import Self

from queues.send_snapshot.states import SnapshotSync
from queues.states import SnapshotState

_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Progress:
    """`share` is between 0 and 1, the speed in rows per second, the time in seconds; None if unknown."""

    rows: int
    share: float | None
    rows_per_second: float | None
    seconds_left: float | None

    @classmethod
    def made(cls, rows: int, of: int, seconds: float) -> Self:
        """Return the progress after *rows* in *seconds*, out of *of* rows (0: unknown)."""
        speed = rows / seconds if rows and seconds > 0 else None
        if not of:
            return cls(rows, None, speed, None)
        # More rows than expected: the number of further rows is unknown.
        left = (of - rows) / speed if speed and rows <= of else None
        return cls(rows, min(1.0, rows / of), speed, left)


def progress_of(found: SnapshotSync, now_us: int) -> Progress | None:
    """Return the progress of the present step of a snapshot; None outside building and sending."""
    if found.state is SnapshotState.BUILDING and found.pinned_us:
        return Progress.made(found.rows, found.expected_rows, (now_us - found.pinned_us) / _SECOND)
    if found.state is SnapshotState.READY:
        # Rows may leave from the beginning of the build on.
        return Progress.made(found.sent_rows, found.rows, (now_us - found.pinned_us) / _SECOND)
    return None


def cut_seconds(found: SnapshotSync, now_us: int) -> float | None:
    """Return the seconds for which the database has held the cut of a running build; None without one."""
    if found.state is SnapshotState.BUILDING and found.pinned_us:
        return max(0.0, (now_us - found.pinned_us) / _SECOND)
    return None
