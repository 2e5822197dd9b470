"""The work of sending a snapshot, and its frames without the waits for rows."""

from collections.abc import Callable, Iterator

from sqlalchemy import Engine

from lr_server.protocol.answers import SentSnapshot
from lr_server.session import snapshot_frames
from lr_server.session.frame_sources import SnapshotFrame
from lr_server.session.work import SnapshotWork
from queues import send_snapshot
from queues.database.transactions import reading
from queues.send_snapshot import SnapshotSync
from sink.rests import Rest


def work_of(
    engine: Engine,
    found: SnapshotSync,
    after_row: int = 0,
    *,
    mixed: Callable[[], None] = lambda: None,
    forgets: bool = False,
) -> SnapshotWork:
    """Return the work of sending *found* after *after_row*."""

    def look() -> SnapshotSync | None:
        with reading(engine) as connection:
            return send_snapshot.find(connection, found.sync_id)

    return SnapshotWork(found, after_row, SentSnapshot(found.sync_id, after_row, forgets=forgets), look, mixed)


def frames_of(
    engine: Engine, found: SnapshotSync, after_row: int = 0, *, chunk_bytes: int = 1
) -> Iterator[SnapshotFrame]:
    """Yield the frames of *found* after *after_row*, with a block in each if *chunk_bytes* is 1."""
    steps = snapshot_frames.frames(engine, work_of(engine, found, after_row), chunk_bytes=lambda: chunk_bytes)
    return (step for step in steps if not isinstance(step, Rest))
