"""The log entries of a receive queue, in the blocks in which they came; all functions use the caller's transaction.

A block leaves the queue with its last entry. Until then the subscriber's marks tell which entries are applied. So all
functions that read take a number `after`.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    bindparam,
    case,
    func,
    or_,
    select,
    update,
)

from queues.database import dialects
from queues.database.left_out import remove_all
from queues.database.tables.receive import receive_blocks as stored
from queues.errors import NeedsFullSyncError
from queues.receive.block_entries import LogEntries, ReceivedBlock
from queues.receive.received_rows import ReceivedRow

#: The size of the blocks fetched at once, in bytes of `ReceivedBlock.size`; a larger block is fetched alone.
FETCH_BYTES: Final = 1024 * 1024
_MAX_BLOCKS: Final = 256


class NewBlocks(NamedTuple):
    """Blocks as columns of equal length; see `lrq_receive_blocks` for the fields."""

    end_seq: list[int]
    row_count: list[int]
    start_seq: list[int]
    tick_seq: list[int]
    size: list[int]
    block: list[bytes]


# --- reading ----------------------------------------------------------------------------------------------------


def next_blocks(connection: Connection, queue_id: int, after: int, upto: int) -> list[ReceivedBlock]:
    """Read the first blocks with entries between *after* and *upto*: about `FETCH_BYTES` of them, or one larger."""
    values = {"queue": queue_id, "after": after, "upto": upto}
    return [ReceivedBlock(*row) for row in dialects.of(connection).bulk_select(connection, NEXT, values)]


def entries(connection: Connection, queue_id: int, after: int, upto: int | None = None) -> Iterator[LogEntries]:
    """Yield the blocks with entries between *after* and *upto* (None: the end of the queue), unpacked one by one."""
    end = _NO_END if upto is None else upto
    while found := next_blocks(connection, queue_id, after, end):
        for packed in found:
            yield LogEntries(packed)
        after = found[-1].end_seq


_NO_END: Final = 2**63 - 1


def rows(connection: Connection, queue_id: int, after: int, upto: int | None = None) -> Iterator[ReceivedRow]:
    """Yield the entries with `after < seq <= upto` (None: all after *after*), unpacked block by block."""
    for block in entries(connection, queue_id, after, upto):
        yield from block.rows(after, block.end_seq if upto is None else min(block.end_seq, upto))


class HeldEntries(NamedTuple):
    """The entries that one block has in a range, up to number `end_seq`."""

    entries: int
    end_seq: int


def held(connection: Connection, queue_id: int, after: int, upto: int) -> list[HeldEntries]:
    """Return, block by block, how many entries with `after < seq <= upto` are stored; nothing is unpacked."""
    wanted = select(stored.c.end_seq, stored.c.row_count).where(_of(queue_id, after, upto)).order_by(stored.c.end_seq)
    ends = [(max(end - rows, after), min(end, upto)) for end, rows in connection.execute(wanted)]
    return [HeldEntries(last - before, last) for before, last in ends if before < last]


def count(connection: Connection, queue_id: int, after: int, most: int) -> int:
    """Count the entries after *after*; stop at *most*, at the earliest."""
    left = case((after > _before, stored.c.end_seq - after), else_=stored.c.row_count).label("left")
    some = select(left).where(_of(queue_id, after, _NO_END)).order_by(stored.c.end_seq).limit(most).subquery()
    total = select(func.coalesce(func.sum(some.c.left), 0))
    return min(int(connection.execute(total).scalar_one()), most)


def oldest_us(connection: Connection, queue_id: int, after: int) -> int:
    """Return the commit time of the first entry after *after*; 0 if there is none, or its block is damaged."""
    first = select(stored).where(_of(queue_id, after, _NO_END)).order_by(stored.c.end_seq).limit(1)
    row = connection.execute(first.with_only_columns(*_COLUMNS)).first()
    if row is None:
        return 0
    try:
        block = LogEntries(ReceivedBlock(*row))
    except NeedsFullSyncError:
        # The subscriber reports the damage.
        return 0
    return block.rows(after, max(block.first, after + 1))[0].committed_us


def size_upto(connection: Connection, queue_id: int, after: int, end: int) -> int:
    """Return the size of the blocks that end after *after*, and at *end* at the latest."""
    return _size(connection, stored.c.queue_id == queue_id, stored.c.end_seq > after, stored.c.end_seq <= end)


def ended(connection: Connection, queue_id: int, after: int, end: int) -> tuple[int, int]:
    """Return the number and the size of the blocks that end after *after*, and at *end* at the latest."""
    own = stored.c.queue_id == queue_id, stored.c.end_seq > after, stored.c.end_seq <= end
    counted = select(func.count(), func.coalesce(func.sum(stored.c.size), 0)).where(*own)
    blocks, size = connection.execute(counted).one()
    return int(blocks), int(size)


_COLUMNS: Final = tuple(stored.c[name] for name in ReceivedBlock._fields)
#: The number before the first entry of a block.
_before: Final = stored.c.end_seq - stored.c.row_count


def _of(queue_id: int, after: int, upto: int) -> ColumnElement[bool]:
    return (stored.c.queue_id == queue_id) & (stored.c.end_seq > after) & (_before < upto)


def following(after: ColumnElement[int], upto: ColumnElement[int]) -> Select[tuple[Any, ...]]:
    """Return the statement of `next_blocks`, with the parameter `queue`."""
    own = stored.c.queue_id == bindparam("queue")
    some = (
        select(
            *_COLUMNS[:-1],
            func.sum(stored.c.size, type_=BigInteger).over(order_by=stored.c.end_seq, rows=(None, 0)).label("upto"),
            func.row_number().over(order_by=stored.c.end_seq).label("place"),
        )
        .where(own, stored.c.end_seq > after, _before < upto)
        .order_by(stored.c.end_seq)
        .limit(_MAX_BLOCKS)
        .subquery()
        .c
    )
    chosen = or_(some.upto <= FETCH_BYTES, some.place == 1)
    # Each block has its own look-up: a window function over the blocks makes SQLite copy all of them.
    block = select(stored.c.block).where(own, stored.c.end_seq == some.end_seq).scalar_subquery()
    columns = (some[name] for name in ReceivedBlock._fields[:-1])
    return select(*columns, block).where(chosen).order_by(some.end_seq)


NEXT = following(bindparam("after", type_=BigInteger), bindparam("upto", type_=BigInteger))


def last_end(upto: ColumnElement[int]) -> Select[tuple[Any, ...]]:
    """Return the statement for the end of the last block with entries up to *upto*, with the parameter `queue`."""
    return select(func.max(stored.c.end_seq)).where(stored.c.queue_id == bindparam("queue"), _before < upto)


# --- writing ----------------------------------------------------------------------------------------------------


def cut_after(connection: Connection, queue_id: int, seq: int, applied_seq: int) -> int:
    """Remove the entries after *seq*, and a block whose other entries are applied; return the freed size.

    A block that goes on after *seq* keeps its bytes, and only says that it ends at *seq*.
    """
    own = stored.c.queue_id == queue_id
    beyond = own, stored.c.end_seq > seq, _before >= (seq if seq > applied_seq else _NOWHERE)
    freed = _size(connection, *beyond)
    remove_all(connection, stored, *beyond)
    row = connection.execute(select(*_COLUMNS[:-1]).where(own, stored.c.end_seq > seq)).first()
    if row is None:
        return freed
    left = row.row_count - (row.end_seq - seq)
    size = row.size * left // row.row_count
    shorter = {"end_seq": seq, "row_count": left, "size": size}
    connection.execute(update(stored).where(own, stored.c.end_seq == row.end_seq).values(shorter))
    return freed + int(row.size) - int(size)


#: Less than every number.
_NOWHERE: Final = -1


def clear(connection: Connection, queue_id: int) -> None:
    """Delete all blocks."""
    remove_all(connection, stored, stored.c.queue_id == queue_id)


def _size(connection: Connection, *chosen: ColumnElement[bool]) -> int:
    return int(connection.execute(select(func.coalesce(func.sum(stored.c.size), 0)).where(*chosen)).scalar_one())
