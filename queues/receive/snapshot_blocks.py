"""The rows of snapshots in a receive queue, in their original blocks; all functions run in the caller's transaction."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError
from sqlalchemy import ColumnElement, Connection, Select, bindparam, delete, func, or_, select

from queues.blocks import SnapshotColumns, decode_snapshot
from queues.database import dialects
from queues.database.dialect import Statement
from queues.database.left_out import left_out
from queues.database.tables.receive import receive_snapshot_blocks as stored
from queues.errors import CorruptFrameError, SnapshotFailedError, StoreUnavailableError
from queues.wire.replication_pb2 import Block

#: The unpacked size of the blocks fetched at once, in bytes; a larger block is fetched alone.
FETCH_BYTES: Final = 1024 * 1024
_MAX_BLOCKS: Final = 64


class SnapshotRow(NamedTuple):
    """One row of a snapshot; rows are numbered from 1, without gaps."""

    row_no: int
    payload: bytes
    item_key: str | None


class HeldSnapshot(NamedTuple):
    """Rows of one block, up to `last_row`; `bytes` is the unpacked size of the whole block."""

    rows: int
    last_row: int
    bytes: int


def stage(connection: Connection, queue_id: int, sync_id: str, after: int, blocks: Sequence[Block]) -> None:
    """Add *blocks*, at least one, to snapshot *sync_id*; their rows are numbered from *after* + 1."""
    last_rows = []
    for block in blocks:
        after += block.rows
        last_rows.append(after)
    values: dict[str, Sequence[object]] = {
        "queue_id": [queue_id] * len(blocks),
        "sync_id": [sync_id] * len(blocks),
        "last_row": last_rows,
        "row_count": [block.rows for block in blocks],
        "plain_size": [block.plain_size for block in blocks],
        "block": [block.SerializeToString() for block in blocks],
    }
    dialects.of(connection).bulk_insert_columns(connection, stored, values)


def drop_staged(connection: Connection, queue_id: int, *, keep: str) -> None:
    """Delete the rows of all snapshots except *keep*, the published one; empty if there is none."""
    connection.execute(*dropping_staged(queue_id, keep=keep))


def dropping_staged(queue_id: int, *, keep: str) -> Statement:
    """Return the statement of `drop_staged`, for one message with others."""
    return _DROP, {"of_queue": queue_id, "kept": keep}


_DROP = delete(stored).where(stored.c.queue_id == bindparam("of_queue"), stored.c.sync_id != bindparam("kept"))


def rows(connection: Connection, queue_id: int, sync_id: str, *, after: int, upto: int) -> Iterator[SnapshotRow]:
    """Yield the rows *after* + 1 to *upto*; stop early at a missing row.

    Raises `SnapshotFailedError` if a block is damaged.
    """
    for found in columns(connection, queue_id, sync_id, after=after, upto=upto):
        for payload, item_key in zip(found.payloads, found.item_keys, strict=True):
            after += 1
            yield SnapshotRow(after, payload, item_key)


def columns(connection: Connection, queue_id: int, sync_id: str, *, after: int, upto: int) -> Iterator[SnapshotColumns]:
    """Yield the rows *after* + 1 to *upto*, block by block, at least one row each; otherwise like `rows`."""
    while after < upto:
        found = _next_blocks(connection, queue_id, sync_id, after)
        for last_row, row_count, block in found:
            first = last_row - row_count + 1
            if first > after + 1 or after >= upto:
                return
            wanted = slice(after + 1 - first, min(last_row, upto) + 1 - first)
            payloads, item_keys = _unpacked(block, sync_id, first)
            yield SnapshotColumns(payloads[wanted], item_keys[wanted])
            after = last_row
        if not found:
            return


def held(connection: Connection, queue_id: int, sync_id: str, *, after: int, upto: int) -> list[HeldSnapshot]:
    """Return, block by block, which of the rows *after* + 1 to *upto* are stored; stop early at a missing row."""
    chosen = stored.c.last_row, stored.c.row_count, stored.c.plain_size
    wanted = _own(queue_id, sync_id), stored.c.last_row > after, stored.c.last_row - stored.c.row_count < upto
    found: list[HeldSnapshot] = []
    for last_row, row_count, plain_size in connection.execute(select(*chosen).where(*wanted).order_by(chosen[0])):
        if last_row - row_count > after:
            break
        found.append(HeldSnapshot(min(last_row, upto) - after, min(last_row, upto), plain_size))
        after = last_row
    return found


def remove(connection: Connection, queue_id: int, sync_id: str, *, after: int, upto: int) -> int:
    """Remove the rows *after* + 1 to *upto*, the first rows in the queue; return their number.

    A block is deleted with its last row; until then the subscriber's marks tell which rows are left. Raises
    `StoreUnavailableError` if a trigger of others leaves out a deletion.
    """
    blocks = held(connection, queue_id, sync_id, after=after, upto=upto)
    ended = _own(queue_id, sync_id), stored.c.last_row <= upto
    # The last block may go on after *upto*.
    if connection.execute(delete(stored).where(*ended)).rowcount < len(blocks):
        left = select(stored.c.last_row).where(*ended).limit(1)
        if connection.execute(left).first() is not None:
            raise StoreUnavailableError(left_out(stored.name))
    return sum(each.rows for each in blocks)


def _own(queue_id: int, sync_id: str) -> ColumnElement[bool]:
    return (stored.c.queue_id == queue_id) & (stored.c.sync_id == sync_id)


def _next_blocks(connection: Connection, queue_id: int, sync_id: str, after: int) -> Sequence[tuple[int, int, bytes]]:
    values = {"queue": queue_id, "of_sync": sync_id, "after": after}
    return dialects.of(connection).bulk_select(connection, NEXT, values)


def _unpacked(block: bytes, sync_id: str, first_row: int) -> SnapshotColumns:
    try:
        packed = Block.FromString(block)
        return decode_snapshot(packed, packed.plain_size)
    except (CorruptFrameError, DecodeError) as error:
        raise SnapshotFailedError(
            f"the rows of snapshot {sync_id} from row {first_row} on are damaged where they are stored ({error}): "
            "request a new snapshot"
        ) from error


def _next() -> Select[tuple[int, int, bytes]]:
    own = stored.c.queue_id == bindparam("queue"), stored.c.sync_id == bindparam("of_sync")
    following = (
        select(
            stored.c.last_row,
            stored.c.row_count,
            func.sum(stored.c.plain_size).over(order_by=stored.c.last_row, rows=(None, 0)).label("upto"),
            func.row_number().over(order_by=stored.c.last_row).label("place"),
        )
        .where(*own, stored.c.last_row > bindparam("after"))
        .order_by(stored.c.last_row)
        .limit(_MAX_BLOCKS)
        .subquery()
        .c
    )
    chosen = or_(following.upto <= FETCH_BYTES, following.place == 1)
    # Each block has its own look-up: a window function over the blocks makes SQLite copy all of them.
    block = select(stored.c.block).where(*own, stored.c.last_row == following.last_row).scalar_subquery()
    return select(following.last_row, following.row_count, block).where(chosen).order_by(following.last_row)


NEXT = _next()
