"""A snapshot as frames: begin, the blocks with the rows after those that the sink has staged, and the end marker."""

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from sqlalchemy import Engine, select

from lr_server.outgoing import tick_header
from queues import snapshots
from queues.errors import SnapshotCancelledError
from queues.log.sql import tick_of
from queues.snapshots import Snapshot, StoredBlock
from queues.tables import ticks
from queues.transactions import reading
from queues.wire.replication_pb2 import Frame, SnapshotBegin, SnapshotChunk, SnapshotEnd
from queues.wire.replication_pb2 import Position as WirePosition


def frames(engine: Engine, snapshot: Snapshot, after_row: int, *, chunk_bytes: int) -> Iterator[tuple[Frame, int, int]]:
    """Yield each frame with the row that it brings the sink to and its size, without the session's name.

    The first rows that are sent may be some before *after_row*: blocks are sent as they are stored. Raises
    `SnapshotCancelledError` when rows are missing, because the snapshot was given up meanwhile.
    """
    sync_id = snapshot.sync_id
    yield Frame(snapshot_begin=SnapshotBegin(sync_id=sync_id)), after_row, 64
    row = after_row
    with closing(_ahead(_reads(engine, snapshot, after_row, chunk_bytes))) as reads:
        for blocks in reads:
            row = blocks[-1].last_row
            chunk = SnapshotChunk(
                sync_id=sync_id, first_row=blocks[0].first_row, blocks=[found.block for found in blocks]
            )
            yield Frame(snapshot_chunk=chunk), row, sum(len(found.block.body) for found in blocks) + 64
    yield Frame(snapshot_end=_end(engine, snapshot)), row, 128


def _reads(engine: Engine, snapshot: Snapshot, after_row: int, limit_bytes: int) -> Iterator[list[StoredBlock]]:
    sync_id, row = snapshot.sync_id, after_row
    while row < snapshot.rows:
        with reading(engine) as connection:
            blocks = snapshots.read_blocks(connection, sync_id, after_row=row, limit_bytes=limit_bytes)
        if not blocks:
            raise SnapshotCancelledError(f"snapshot {sync_id} has lost its rows after {row}: it was given up")
        row = blocks[-1].last_row
        yield blocks


def _ahead(reads: Iterator[list[StoredBlock]]) -> Generator[list[StoredBlock], None, None]:
    """Yield what is read while the next is being read, in a thread that ends with this iterator."""
    with ThreadPoolExecutor(1, thread_name_prefix="lrq-snapshot-read") as thread:
        following = thread.submit(next, reads, None)
        while (blocks := following.result()) is not None:
            following = thread.submit(next, reads, None)
            yield blocks


def _end(engine: Engine, snapshot: Snapshot) -> SnapshotEnd:
    base = snapshot.base
    with reading(engine) as connection:
        tick = connection.execute(
            select(ticks).where(ticks.c.end_seq == base.seq, ticks.c.branch == base.branch).limit(1)
        ).first()
    header = None if tick is None else tick_header(tick_of(tick))
    return SnapshotEnd(
        sync_id=snapshot.sync_id,
        base=WirePosition(branch=base.branch, seq=base.seq, cut=base.cut),
        rows=snapshot.rows,
        bytes=snapshot.bytes,
        checksum=snapshot.checksum,
        header=header,
    )
