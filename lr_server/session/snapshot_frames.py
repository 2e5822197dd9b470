"""A snapshot as frames: the begin, the blocks that the sink has not staged yet, and the end marker."""

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Final

from sqlalchemy import Engine

from lr_server.session.frame_sources import SnapshotFrame
from lr_server.session.growing_frames import chunk_of, growing_frames, size_of
from lr_server.session.outgoing import tick_header
from lr_server.session.work import SnapshotWork
from queues import send_snapshot
from queues.database.transactions import reading, writing
from queues.errors import CorruptFrameError, SnapshotCancelledError
from queues.logs import logger
from queues.send_log.history import tick_ending_at
from queues.send_snapshot import SnapshotState, SnapshotSync, StoredBlock, hints
from queues.wire.replication_pb2 import Frame, SnapshotBegin, SnapshotEnd
from queues.wire.replication_pb2 import Position as WirePosition
from sink.rests import Rest

log = logger("lrq.server")


#: The longest wait for a sink that forgets rows, in seconds; its answer ends the wait.
_LOOK: Final = 0.5


def frames(engine: Engine, work: SnapshotWork, *, chunk_bytes: Callable[[], int]) -> Iterator[SnapshotFrame | Rest]:
    """Yield each frame, which has no `session` yet. While the snapshot is being built, yield each wait for rows too.

    The blocks of a frame unpack to at most the bytes that *chunk_bytes* returns then, a single block excepted.
    Blocks are sent as they are stored, so the first one may have rows that the sink has already. Raises
    `SnapshotCancelledError` when rows are missing, because the snapshot or the attempt was given up meanwhile. A block
    that is damaged raises that too, once another snapshot is requested. So do missing rows of a wanted snapshot.
    """
    snapshot, row = work.snapshot, work.after_row
    sync_id = snapshot.sync_id
    if work.sent.replacing:
        # A sink keeps the rows of the snapshot that begins, and no others.
        yield _begin(work.sent.replacing), row, 64
    while work.sent.replacing:
        yield Rest(_LOOK)
    yield _begin(sync_id), row, 64
    if snapshot.state is SnapshotState.BUILDING:
        snapshot, row = yield from growing_frames(engine, work, chunk_bytes)
    with closing(_ahead(_reads(engine, snapshot, row, chunk_bytes))) as reads:
        for blocks in reads:
            row = blocks[-1].last_row
            yield chunk_of(sync_id, blocks), row, size_of(blocks)
    yield Frame(snapshot_end=_end(engine, snapshot)), row, 128


def _begin(sync_id: str) -> Frame:
    return Frame(snapshot_begin=SnapshotBegin(sync_id=sync_id))


def _reads(
    engine: Engine, snapshot: SnapshotSync, after_row: int, chunk_bytes: Callable[[], int]
) -> Iterator[list[StoredBlock]]:
    sync_id, row = snapshot.sync_id, after_row
    while row < snapshot.rows:
        try:
            with reading(engine) as connection:
                blocks = send_snapshot.read_blocks(connection, sync_id, after_row=row, limit_bytes=chunk_bytes())
            if not blocks:
                raise SnapshotCancelledError(f"snapshot {sync_id} was given up, so the rows after {row} are gone")
        except CorruptFrameError as damaged:
            _replace(engine, snapshot, "damaged", str(damaged))
            raise SnapshotCancelledError(f"snapshot {sync_id} is replaced by another one: {damaged}") from damaged
        except SnapshotCancelledError as gone:
            if _is_kept(engine, sync_id):
                _replace(engine, snapshot, "missing", str(gone))
            raise
        row = blocks[-1].last_row
        yield blocks


def _is_kept(engine: Engine, sync_id: str) -> bool:
    """Return whether a snapshot is complete and wanted; no snapshot becomes so again."""
    with reading(engine) as connection:
        found = send_snapshot.find(connection, sync_id)
    return found is not None and found.state is SnapshotState.READY


def _replace(engine: Engine, damaged: SnapshotSync, what: str, error: str) -> None:
    """Request another snapshot: no transfer can ever complete this one, whose rows are *what*."""
    client, destination = damaged.client, damaged.destination
    with writing(engine) as connection:
        newest = send_snapshot.newest(connection, client, destination)
        if newest is None or newest.sync_id != damaged.sync_id:
            return
        reason = f"rows of snapshot {damaged.sync_id} are {what} where they are stored"
        send_snapshot.request(connection, client, [destination], reason)
        transmitter = hints.names_at(connection).transmitter(client)
    hints.send(transmitter)
    log.warning("a damaged snapshot is replaced", rows=what, destination=destination, error=error)


def _ahead(reads: Iterator[list[StoredBlock]]) -> Generator[list[StoredBlock], None, None]:
    """Yield each read while a thread does the next one; the thread ends with this iterator."""
    with ThreadPoolExecutor(1, thread_name_prefix="lrq-snapshot-read") as thread:
        following = thread.submit(next, reads, None)
        while (blocks := following.result()) is not None:
            following = thread.submit(next, reads, None)
            yield blocks


def _end(engine: Engine, snapshot: SnapshotSync) -> SnapshotEnd:
    base = snapshot.base
    with reading(engine) as connection:
        tick = tick_ending_at(connection, base.branch, base.seq)
    header = None if tick is None else tick_header(tick)
    return SnapshotEnd(
        sync_id=snapshot.sync_id,
        base=WirePosition(branch=base.branch, seq=base.seq, cut=base.cut),
        rows=snapshot.rows,
        bytes=snapshot.bytes,
        checksum=snapshot.checksum,
        header=header,
    )
