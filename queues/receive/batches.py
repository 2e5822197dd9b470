"""Read the next batch of a receive queue: whole source transactions, within limits of rows and bytes."""

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

from queues.database import dialects
from queues.database.tables import receive_entries as log
from queues.receive.entries import ENTRY_SIZE


class ReceivedRow(NamedTuple):
    """One entry of a receive queue; in a snapshot, `seq` and `transaction_seq` are the row number."""

    seq: int
    transaction_seq: int
    committed_us: int
    item_key: str | None
    payload: bytes
    headers: str | None = None
    partition_key: str | None = None


class Size(NamedTuple):
    """The size of an entry, in bytes of its payload and its headers."""

    seq: int
    transaction_seq: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits of one listener call; a single larger source transaction is still delivered whole."""

    entries: int
    bytes: int


class Fetched(NamedTuple):
    """All rows of a queue up to and including `end`, the end of a source transaction."""

    rows: Sequence[ReceivedRow]
    end: int


_SPAN = (log.c.queue_id == bindparam("queue"), log.c.seq > bindparam("after"), log.c.seq <= bindparam("upto"))
_COLUMNS = tuple(log.c[name] for name in ReceivedRow._fields)


def _sized() -> Select[Any]:
    total = func.sum(ENTRY_SIZE).over(order_by=log.c.seq, rows=(None, 0))
    following = select(*_COLUMNS, total.label("total")).where(*_SPAN).order_by(log.c.seq)
    found = following.limit(bindparam("limit", type_=BigInteger)).subquery().c
    # Only payloads that probably belong to this batch are fetched.
    near = case((found.total <= bindparam("limit_bytes", type_=BigInteger), found.payload), else_=null())
    columns = found.seq, found.transaction_seq, found.committed_us, found.item_key, near
    # The size of a row is the difference of two totals.
    return select(*columns, found.headers, found.partition_key, found.total).order_by(found.seq)


SIZED = _sized()
ROWS = select(*_COLUMNS).where(*_SPAN).order_by(log.c.seq)
BEYOND = select(log.c.seq).where(*_SPAN, log.c.transaction_seq != bindparam("first")).order_by(log.c.seq).limit(1)


def next_entries(
    connection: Connection, queue_id: int, after: int, upto: int, limits: BatchLimits, *, one: bool = False
) -> Fetched:
    """Read whole source transactions with `after < seq <= upto`, within *limits*; with *one*, only the first.

    If no entry is left before *upto*, the result ends there, so an empty result can still advance the marks.
    """
    values = {"queue": queue_id, "after": after, "upto": upto}
    read = dialects.of(connection).bulk_select
    found = read(connection, SIZED, {**values, "limit": limits.entries + 1, "limit_bytes": limits.bytes})
    if not found:
        return Fetched((), upto)
    totals = [row[-1] for row in found]
    sizes = [Size(row[0], row[1], row[-1] - before) for row, before in zip(found, [0, *totals], strict=False)]
    taken = rows_within(sizes, limits, one=one)
    if taken is not None:
        end = upto if taken == len(sizes) else sizes[taken].seq - 1
        rows = [ReceivedRow(*row[:-1]) for row in found[:taken]]
        if all(row.payload is not None for row in rows):
            return Fetched(rows, end)
    else:  # one transaction above the limit, whose end was not read
        beyond = read(connection, BEYOND, {**values, "first": sizes[0].transaction_seq})
        end = beyond[0][0] - 1 if beyond else upto
    return Fetched([ReceivedRow(*row) for row in read(connection, ROWS, {**values, "upto": end})], end)


def rows_within(sizes: Sequence[Size], limits: BatchLimits, *, one: bool = False) -> int | None:
    """Return the number of leading rows that form whole transactions; None if no transaction ends among them. Pure.

    *sizes* cover the next rows, and one more than the limit if there are more. At least one transaction is taken, of
    any size; with *one*, exactly one.
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
