"""What comes next on a receive queue: batches of whole source transactions, bounded by rows and bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    bindparam,
    case,
    func,
    literal_column,
    null,
    select,
)

from queues import dialects
from queues.receive.consuming import Consumed
from queues.tables import receive_entries as log
from queues.tables import receive_snapshot_entries as snapshot


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


_Columns = tuple[ColumnElement[int], ColumnElement[int], ColumnElement[int], ColumnElement[str], ColumnElement[bytes]]


class _Look(NamedTuple):
    """The statements of one kind of queue, for the rows of `queue` with `after < seq <= upto`."""

    sized: Any
    rows: Any
    beyond: Any


def _look(columns: tuple[ColumnElement[Any], ...], *where: ColumnElement[bool]) -> _Look:
    seq, transaction, committed, key, payload = columns
    span = (*where, seq > bindparam("after"), seq <= bindparam("upto"))
    size = func.length(payload, type_=BigInteger)
    following = (
        select(
            *(each.label(name) for each, name in zip(columns, EntryRow._fields, strict=True)),
            size.label("size"),
            func.sum(size).over(order_by=seq, rows=(None, 0)).label("total"),
        )
        .where(*span)
        .order_by(seq)
        .limit(bindparam("limit", type_=BigInteger))
        .subquery()
    )
    found = following.c
    # Payloads that are not likely to be of this batch stay where they are.
    near = case((found.total <= bindparam("limit_bytes", type_=BigInteger), found.payload), else_=null())
    return _Look(
        select(found.seq, found.transaction_seq, found.committed_us, found.item_key, near, found.size).order_by(
            found.seq
        ),
        select(seq, transaction, committed, key, payload).where(*span).order_by(seq),
        select(seq).where(*span, transaction != bindparam("first")).order_by(seq).limit(1),
    )


_number = snapshot.c.row_no
LOG = _look(
    (log.c.seq, log.c.transaction_seq, log.c.committed_us, log.c.item_key, log.c.payload),
    log.c.queue_id == bindparam("queue"),
)
SNAPSHOT = _look(
    (_number, _number, literal_column("0", BigInteger), snapshot.c.item_key, snapshot.c.payload),
    snapshot.c.queue_id == bindparam("queue"),
    snapshot.c.sync_id == bindparam("sync_id"),
)


def next_entries(
    connection: Connection, queue_id: int, after: int, upto: int, limits: Limits, *, one: bool = False
) -> Fetched:
    """Read whole source transactions with `after < seq <= upto`, within *limits*; with *one*, only the first.

    The result ends at *upto* when nothing is left before it, so that it may be empty and still get on.
    """
    return _fetch(connection, LOG, {"queue": queue_id, "after": after, "upto": upto}, limits, one=one)


def next_snapshot_rows(
    connection: Connection, queue_id: int, seen: Consumed, rows: int, limits: Limits, *, one: bool = False
) -> Fetched:
    """Read rows of the snapshot that is being consumed, *rows* long, like `next_entries`; each row may be cut off."""
    values = {"queue": queue_id, "sync_id": seen.sync_id, "after": seen.row_no, "upto": rows}
    return _fetch(connection, SNAPSHOT, values, limits, one=one)


def _fetch(connection: Connection, look: _Look, values: dict[str, Any], limits: Limits, *, one: bool) -> Fetched:
    read = dialects.of(connection).bulk_select
    bounds = {"limit": limits.entries + 1, "limit_bytes": limits.bytes}
    found = read(connection, look.sized, {**values, **bounds})
    if not found:
        return Fetched((), values["upto"])
    sizes = [Size(seq, transaction, size) for seq, transaction, _, _, _, size in found]
    taken = rows_within(sizes, limits, one=one)
    if taken is not None:
        end = values["upto"] if taken == len(sizes) else sizes[taken].seq - 1
        rows = [EntryRow(*row[:5]) for row in found[:taken]]
        if all(row.payload is not None for row in rows):
            return Fetched(rows, end)
    else:  # one transaction above the limit, whose end is not in sight
        beyond = read(connection, look.beyond, {**values, "first": sizes[0].transaction_seq})
        end = beyond[0][0] - 1 if beyond else values["upto"]
    return Fetched([EntryRow(*row) for row in read(connection, look.rows, {**values, "upto": end})], end)


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
