"""What comes next on a receive queue: batches of whole source transactions, bounded by rows and bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Connection,
    Select,
    bindparam,
    case,
    func,
    null,
    select,
)

from queues import dialects
from queues.receive import snapshot
from queues.receive.consuming import Consumed
from queues.tables import receive_entries as log


class EntryRow(NamedTuple):
    """One entry of a receive queue; of a snapshot, `seq` and `transaction_seq` are its row number."""

    seq: int
    transaction_seq: int
    committed_us: int
    item_key: str | None
    payload: bytes


class Size(NamedTuple):
    """What an entry weighs, in bytes of payload."""

    seq: int
    transaction_seq: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one listener call may bring; a single source transaction above them still comes whole."""

    entries: int
    bytes: int


class Fetched(NamedTuple):
    """All rows of a queue up to and with `end`, which is the end of a source transaction."""

    rows: Sequence[EntryRow]
    end: int


_SPAN = (log.c.queue_id == bindparam("queue"), log.c.seq > bindparam("after"), log.c.seq <= bindparam("upto"))
_COLUMNS = tuple(log.c[name] for name in EntryRow._fields)


def _sized() -> Select[Any]:
    size = func.length(log.c.payload, type_=BigInteger)
    total = func.sum(size).over(order_by=log.c.seq, rows=(None, 0))
    following = select(*_COLUMNS, size.label("size"), total.label("total")).where(*_SPAN).order_by(log.c.seq)
    found = following.limit(bindparam("limit", type_=BigInteger)).subquery().c
    # Payloads that are not likely to be of this batch stay where they are.
    near = case((found.total <= bindparam("limit_bytes", type_=BigInteger), found.payload), else_=null())
    columns = found.seq, found.transaction_seq, found.committed_us, found.item_key, near, found.size
    return select(*columns).order_by(found.seq)


SIZED = _sized()
ROWS = select(*_COLUMNS).where(*_SPAN).order_by(log.c.seq)
BEYOND = select(log.c.seq).where(*_SPAN, log.c.transaction_seq != bindparam("first")).order_by(log.c.seq).limit(1)


def next_entries(
    connection: Connection, queue_id: int, after: int, upto: int, limits: Limits, *, one: bool = False
) -> Fetched:
    """Read whole source transactions with `after < seq <= upto`, within *limits*; with *one*, only the first.

    The result ends at *upto* when nothing is left before it, so that it may be empty and still get on.
    """
    values = {"queue": queue_id, "after": after, "upto": upto}
    read = dialects.of(connection).bulk_select
    found = read(connection, SIZED, {**values, "limit": limits.entries + 1, "limit_bytes": limits.bytes})
    if not found:
        return Fetched((), upto)
    sizes = [Size(seq, transaction, size) for seq, transaction, _, _, _, size in found]
    taken = rows_within(sizes, limits, one=one)
    if taken is not None:
        end = upto if taken == len(sizes) else sizes[taken].seq - 1
        rows = [EntryRow(*row[:5]) for row in found[:taken]]
        if all(row.payload is not None for row in rows):
            return Fetched(rows, end)
    else:  # one transaction above the limit, whose end is not in sight
        beyond = read(connection, BEYOND, {**values, "first": sizes[0].transaction_seq})
        end = beyond[0][0] - 1 if beyond else upto
    return Fetched([EntryRow(*row) for row in read(connection, ROWS, {**values, "upto": end})], end)


def next_snapshot_rows(
    connection: Connection, queue_id: int, seen: Consumed, upto: int, limits: Limits, *, one: bool = False
) -> Fetched:
    """Read rows of the snapshot that is being consumed, up to row *upto*, like `next_entries`; any may be the last.

    When the first of them is missing, the result is empty and ends at *upto*.
    """
    found: list[EntryRow] = []
    most = 1 if one else limits.entries
    left = limits.bytes
    for number, payload, item_key in snapshot.rows(connection, queue_id, seen.sync_id, after=seen.row_no, upto=upto):
        left -= len(payload)
        if found and left < 0:
            break
        found.append(EntryRow(number, number, 0, item_key, payload))
        if len(found) == most:
            break
    return Fetched(found, found[-1].seq if found else upto)


def rows_within(sizes: Sequence[Size], limits: Limits, *, one: bool = False) -> int | None:
    """Return how many of the first rows to take, as whole transactions; None when not even one ends in sight. Pure.

    *sizes* are those of the next rows, and of one more than the limit if there are more.
    At least one transaction is taken, whatever its size; with *one*, no more than that.
    """
    complete = len(sizes) <= limits.entries
    best, total = None, 0
    for index, (_, transaction, size) in enumerate(sizes):
        if index and transaction != sizes[index - 1].transaction_seq:
            if best is not None and total > limits.bytes:
                return best
            best = index
            if one or total > limits.bytes:
                return best
        total += size
    if complete and (best is None or total <= limits.bytes):
        return len(sizes)
    return best
