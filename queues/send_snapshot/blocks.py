"""Read the stored blocks of a published snapshot, in (part, ord) order, from any row on."""

from itertools import accumulate
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError
from sqlalchemy import BigInteger, Connection, Select, bindparam, func, or_, select

from queues.block_limits import MAX_ROWS
from queues.blocks import SnapshotColumns, check_packed, decode_snapshot
from queues.database import dialects
from queues.database.tables.snapshots import snapshot_blocks, snapshot_parts, snapshots
from queues.errors import CorruptFrameError, SnapshotCancelledError
from queues.send_snapshot.states import stored_under
from queues.states import SnapshotState
from queues.wire.replication_pb2 import Block

#: The most parts that one read covers.
MAX_PARTS: Final = 256
#: The most blocks of one read and of one frame: even small rows cost time and memory.
MAX_BLOCKS: Final = 64


class StoredBlock(NamedTuple):
    """Some rows of a snapshot; `first_row` is the number of the first, counted from 1 over all parts."""

    first_row: int
    block: Block

    @property
    def last_row(self) -> int:
        """The number of the last row."""
        return self.first_row + self.block.rows - 1

    def unpack(self) -> SnapshotColumns:
        """Return the rows; raise `CorruptFrameError` if they are damaged."""
        return decode_snapshot(self.block, self.block.plain_size)


class FoundBlock(NamedTuple):
    """One row of `lrq_snapshot_blocks`."""

    last_ord: int
    rows: int
    plain_size: int
    stored: bytes

    @property
    def before(self) -> int:
        """The number of the row before the first one."""
        return self.last_ord - self.rows


class Stretch(NamedTuple):
    """The remaining rows of one part: those with `ord` > `skip`; `first` rows come before the part."""

    part: int
    attempt: int
    rows: int
    first: int
    skip: int


def read_blocks(connection: Connection, sync_id: str, *, after_row: int, limit_bytes: int) -> list[StoredBlock]:
    """Return consecutive blocks of a ready snapshot; the first one holds row `after_row` + 1.

    The blocks unpack to at most *limit_bytes*, but a single larger block is returned alone. Together they have at most
    `MAX_ROWS`. An empty list is the end of the snapshot. The cost does not depend on *after_row*.

    Raises `SnapshotCancelledError` if the snapshot is not ready or its rows are deleted. Raises `CorruptFrameError` for
    blocks that are damaged where they are stored.
    """
    wanted = select(snapshots.c.state, snapshots.c.build).where(snapshots.c.sync_id == sync_id)
    state, build = connection.execute(wanted).one_or_none() or ("not known", "")
    if state != SnapshotState.READY:
        raise SnapshotCancelledError(f"snapshot {sync_id} is {state}, so none of its rows is to be sent")
    stored = stored_under(build)
    blocks: list[StoredBlock] = []
    left = limit_bytes
    for stretch in _stretches(connection, stored, after_row):
        found = _find(connection, stored, stretch, MAX_BLOCKS - len(blocks), left, even_too_large=not blocks)
        blocks += [parse(sync_id, stretch, each) for each in found]
        left -= sum(each.plain_size for each in found)
        if not found or found[-1].last_ord < stretch.rows:
            break
    totals = accumulate(each.block.rows for each in blocks)
    return [each for each, total in zip(blocks, totals, strict=True) if total <= MAX_ROWS]


def _stretches(connection: Connection, sync_id: str, after_row: int) -> list[Stretch]:
    parts = (
        select(
            snapshot_parts.c.part,
            snapshot_parts.c.attempt,
            snapshot_parts.c.row_count,
            (func.sum(snapshot_parts.c.row_count).over(order_by=snapshot_parts.c.part)).label("total"),
        )
        .where(snapshot_parts.c.sync_id == sync_id)
        .subquery()
    )
    rest = select(parts).where(parts.c.total > after_row).order_by(parts.c.part).limit(MAX_PARTS)
    found = []
    for row in connection.execute(rest):
        first = int(row.total) - row.row_count
        found.append(Stretch(row.part, row.attempt, row.row_count, first, max(0, after_row - first)))
    return found


def _find(
    connection: Connection, sync_id: str, stretch: Stretch, limit: int, limit_bytes: int, *, even_too_large: bool
) -> list[FoundBlock]:
    found = following(connection, sync_id, stretch, limit, limit_bytes, even_too_large=even_too_large)
    if even_too_large and not found:
        raise _gone(sync_id)
    return found


def following(
    connection: Connection, sync_id: str, stretch: Stretch, limit: int, limit_bytes: int, *, even_too_large: bool
) -> list[FoundBlock]:
    """Return the next blocks with one statement; it sums sizes in the database and fetches only blocks that fit.

    Raises `SnapshotCancelledError` if rows before the first block are missing.
    """
    values = {
        "of_sync": sync_id,
        "of_part": stretch.part,
        "of_attempt": stretch.attempt,
        "after": stretch.skip,
        "most": limit,
        "limit_bytes": limit_bytes,
        "in_any_case": stretch.skip if even_too_large else -1,
    }
    found = [FoundBlock(*row) for row in dialects.of(connection).bulk_select(connection, _NEXT, values)]
    starts = [each.before for each in found]
    expected = [min(stretch.skip, starts[0]), *(each.last_ord for each in found[:-1])] if found else []
    if starts != expected:
        raise _gone(sync_id)
    return found


def _gone(sync_id: str) -> SnapshotCancelledError:
    return SnapshotCancelledError(f"rows of snapshot {sync_id} are no longer kept: the snapshot has ended")


def parse(sync_id: str, stretch: Stretch, found: FoundBlock) -> StoredBlock:
    """Return a stored block with the numbers of its rows; raise `CorruptFrameError` if the block is damaged."""
    first_row = stretch.first + found.before + 1
    try:
        block = Block.FromString(found.stored)
        check_packed(block, found.plain_size)
    except (CorruptFrameError, DecodeError):
        block = Block()
    if (block.rows, block.plain_size) != (found.rows, found.plain_size):
        raise CorruptFrameError(
            f"the stored rows {first_row} to {stretch.first + found.last_ord} of snapshot {sync_id} are damaged: "
            "request another snapshot"
        )
    return StoredBlock(first_row, block)


def _next_blocks() -> Select[tuple[int, int, int, bytes]]:
    blocks = snapshot_blocks.c
    own = (
        blocks.sync_id == bindparam("of_sync"),
        blocks.part == bindparam("of_part"),
        blocks.attempt == bindparam("of_attempt"),
    )
    following = (
        select(
            blocks.last_ord,
            blocks.row_count,
            blocks.plain_size,
            func.sum(blocks.plain_size).over(order_by=blocks.last_ord, rows=(None, 0)).label("upto"),
        )
        .where(*own, blocks.last_ord > bindparam("after"))
        .order_by(blocks.last_ord)
        .limit(bindparam("most", type_=BigInteger))
        .subquery()
        .c
    )
    fits = following.upto <= bindparam("limit_bytes", type_=BigInteger)
    chosen = or_(fits, following.last_ord - following.row_count <= bindparam("in_any_case", type_=BigInteger))
    # Each block has its own look-up: a window function over the blocks makes SQLite copy all of them.
    block = select(blocks.block).where(*own, blocks.last_ord == following.last_ord).scalar_subquery()
    columns = following.last_ord, following.row_count, following.plain_size, block
    return select(*columns).where(chosen).order_by(following.last_ord)


_NEXT = _next_blocks()
