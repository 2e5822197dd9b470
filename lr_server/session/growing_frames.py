"""The rows of a snapshot that is still being built, as frames: a slow line is busy meanwhile."""

from collections.abc import Callable, Generator, Sequence
from typing import Final

from sqlalchemy import Engine

from lr_server.session.frame_sources import SnapshotFrame
from lr_server.session.work import SnapshotWork
from queues import send_snapshot
from queues.database.transactions import reading
from queues.errors import SnapshotCancelledError
from queues.send_snapshot import RowPlace, SnapshotState, SnapshotSync, StoredBlock
from queues.wire.replication_pb2 import Frame, SnapshotChunk
from sink.rests import Rest

#: The longest wait for further rows, in seconds; news of the build end it.
_LOOK: Final = 0.5


def growing_frames(
    engine: Engine, work: SnapshotWork, chunk_bytes: Callable[[], int]
) -> Generator[SnapshotFrame | Rest, None, tuple[SnapshotSync, int]]:
    """Yield a frame for the next rows as soon as they are there, and each wait for them.

    Return the complete snapshot, and the last row that was sent. Raises `SnapshotCancelledError` once the attempt has
    failed. So does the publication of another try of a part than the one that was sent.
    """
    sync_id, build = work.snapshot.sync_id, work.snapshot.build
    place, sent = _place_after(engine, work), dict[int, int]()
    while True:
        with reading(engine) as connection:
            blocks, place = send_snapshot.read_growing(connection, sync_id, build, place, limit_bytes=chunk_bytes())
        if blocks:
            sent[place.part] = place.attempt
            yield chunk_of(sync_id, blocks), place.rows, size_of(blocks)
        elif (now := _alive(work)).state is SnapshotState.READY:
            _check_sent(engine, work, sent)
            return now, place.rows
        else:
            yield Rest(_LOOK)


def chunk_of(sync_id: str, blocks: Sequence[StoredBlock]) -> Frame:
    """Return the frame with *blocks* of the snapshot *sync_id*."""
    chunk = SnapshotChunk(sync_id=sync_id, first_row=blocks[0].first_row, blocks=[found.block for found in blocks])
    return Frame(snapshot_chunk=chunk)


def size_of(blocks: Sequence[StoredBlock]) -> int:
    """Return the bytes of a frame with *blocks*."""
    return sum(len(found.block.body) for found in blocks) + 64


def _alive(work: SnapshotWork) -> SnapshotSync:
    """Return the snapshot as it is now; raise `SnapshotCancelledError` if its build has ended without it."""
    found, sent = work.look(), work.snapshot
    is_alive = found is not None and found.state in (SnapshotState.BUILDING, SnapshotState.READY)
    if found is None or not is_alive or (found.build, found.base) != (sent.build, sent.base):
        raise SnapshotCancelledError(f"build {sent.build} has ended without a snapshot for {sent.destination}")
    return found


def _place_after(engine: Engine, work: SnapshotWork) -> RowPlace:
    with reading(engine) as connection:
        place = send_snapshot.place_after(connection, work.snapshot.build, work.after_row)
    if place is None:
        raise _other_try(work)
    return place


def _check_sent(engine: Engine, work: SnapshotWork, sent: dict[int, int]) -> None:
    with reading(engine) as connection:
        if sent and not send_snapshot.is_published(connection, work.snapshot.build, sent):
            raise _other_try(work)


def _other_try(work: SnapshotWork) -> SnapshotCancelledError:
    work.mixed()
    return SnapshotCancelledError(f"another try of build {work.snapshot.build} counts: all rows are sent again")
