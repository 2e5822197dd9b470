"""A snapshot as frames: the begin, the blocks that the sink has not staged yet, and the end marker."""

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from sqlalchemy import Engine

from lr_server.session.outgoing import tick_header
from queues import send_snapshot
from queues.database.transactions import reading, writing
from queues.errors import CorruptFrameError, SnapshotCancelledError
from queues.logs import logger
from queues.send_log.history import tick_ending_at
from queues.send_snapshot import SnapshotState, SnapshotSync, StoredBlock, hints
from queues.wire.replication_pb2 import Frame, SnapshotBegin, SnapshotChunk, SnapshotEnd
from queues.wire.replication_pb2 import Position as WirePosition

log = logger("lrq.server")


def frames(
    engine: Engine, snapshot: SnapshotSync, after_row: int, *, chunk_bytes: Callable[[], int]
) -> Iterator[tuple[Frame, int, int]]:
    """Yield each frame, its last row number and its size in bytes; the frame has no `session` yet.

    The blocks of a frame unpack to at most the bytes that *chunk_bytes* returns then, a single block excepted.
    Blocks are sent as they are stored, so the first block may begin before *after_row*. Raises
    `SnapshotCancelledError` when rows are missing, because the snapshot was given up meanwhile. A damaged block raises
    that too, once another snapshot is requested. So do missing rows of a snapshot that was not given up.
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
