"""Read the status of the requests for snapshots."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection

from discovery.snapshot_status import SnapshotStatus
from queues import send_snapshot
from queues.clock import now_us
from queues.send_snapshot.progress import Progress, cut_seconds, progress_of

#: A cancelled request for a snapshot is shown for this time, in seconds; `lrq snapshot list` shows it longer.
CANCELLED_SECONDS = 60.0
#: The newest requests that are read, and those of them that are shown, finished or not.
_READ: Final = 100
_SHOWN: Final = 20
_NO_PROGRESS: Final = Progress(0, None, None, None)


def read_snapshots(connection: Connection) -> tuple[SnapshotStatus, ...]:
    """Return the status of the newest requests and of all older unfinished ones, newest first."""
    newest_first = send_snapshot.listing(connection, limit=_READ)
    shown = without_cancelled(newest_first, now_us())[:_SHOWN]
    # A snapshot that fails must not leave the status because other sites have asked since.
    waited_for = (each for each in send_snapshot.newest_of_each(connection) if not each.finished)
    there = {each.sync_id for each in shown}
    older = [each for each in waited_for if each.sync_id not in there]
    older.sort(key=lambda each: (each.requested_us, each.sync_id), reverse=True)
    return tuple(map(snapshot_status, (*shown, *older)))


def without_cancelled(
    newest_first: Sequence[send_snapshot.SnapshotSync], at_us: int
) -> list[send_snapshot.SnapshotSync]:
    """Leave out requests that were cancelled more than `CANCELLED_SECONDS` ago, and older ones of the same session.

    An older request no longer tells how the session stands: a failed one would look like a new trouble. Pure.
    """
    left_out: set[tuple[str, str]] = set()
    shown = []
    for found in newest_first:
        session = (found.client, found.destination)
        is_old = found.updated_us < at_us - CANCELLED_SECONDS * 1_000_000
        if found.state is send_snapshot.SnapshotState.CANCELLED and is_old:
            left_out.add(session)
        elif session not in left_out:
            shown.append(found)
    return shown


def snapshot_status(found: send_snapshot.SnapshotSync) -> SnapshotStatus:
    """Return the status of one request for a snapshot, with its progress until now."""
    now = now_us()
    progress = progress_of(found, now) or _NO_PROGRESS
    return SnapshotStatus(
        sync_id=found.sync_id,
        client=found.client,
        destination=found.destination,
        state=found.state,
        reason=found.reason,
        attempt=found.attempt,
        rows=found.rows,
        bytes=found.bytes,
        progress=found.progress,
        expected_rows=found.expected_rows,
        sent_rows=found.sent_rows if found.state is send_snapshot.SnapshotState.READY else 0,
        share=_rounded(progress.share, 4),
        rows_per_second=_rounded(progress.rows_per_second, 1),
        seconds_left=_rounded(progress.seconds_left, 1),
        cut_seconds=_rounded(cut_seconds(found, now), 1),
        error=found.error,
        requested_us=found.requested_us,
        updated_us=found.updated_us,
    )


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
