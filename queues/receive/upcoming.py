"""What comes next on a receive queue: batches of whole source transactions, bounded by rows and bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Connection, func, literal, select

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


def next_entries(
    connection: Connection, queue_id: int, after: int, upto: int, limits: Limits, *, one: bool = False
) -> Fetched:
    """Read whole source transactions with `after < seq <= upto`, within *limits*; with *one*, only the first.

    The result ends at *upto* when nothing is left before it, so that it may be empty and still get on.
    """
    columns = (log.c.seq, log.c.transaction_seq, log.c.committed_us, log.c.item_key, log.c.payload)
    return _fetch(connection, columns, (log.c.queue_id == queue_id,), (after, upto), limits, one=one)


def next_snapshot_rows(
    connection: Connection, queue_id: int, seen: Consumed, rows: int, limits: Limits, *, one: bool = False
) -> Fetched:
    """Read rows of the snapshot that is being consumed, *rows* long, like `next_entries`; each row may be cut off."""
    number = snapshot.c.row_no
    columns = (number, number, literal(0, BigInteger), snapshot.c.item_key, snapshot.c.payload)
    where = (snapshot.c.queue_id == queue_id, snapshot.c.sync_id == seen.sync_id)
    return _fetch(connection, columns, where, (seen.row_no, rows), limits, one=one)


def _fetch(
    connection: Connection,
    columns: tuple[
        ColumnElement[int], ColumnElement[int], ColumnElement[int], ColumnElement[str], ColumnElement[bytes]
    ],
    where: tuple[ColumnElement[bool], ...],
    span: tuple[int, int],
    limits: Limits,
    *,
    one: bool,
) -> Fetched:
    seq, transaction, _, _, payload = columns
    after, upto = span
    # Sizes first: payloads that do not fit into this batch are never read.
    following = select(seq, transaction, func.length(payload)).where(*where, seq > after, seq <= upto).order_by(seq)
    sizes = [Size(*row) for row in connection.execute(following.limit(limits.entries + 1))]
    if not sizes:
        return Fetched((), upto)
    taken = rows_within(sizes, limits, one=one)
    if taken is not None:
        end = upto if taken == len(sizes) else sizes[taken].seq - 1
    else:  # one transaction above the limit, whose end is not in sight
        beyond = connection.execute(following.where(transaction != sizes[0].transaction_seq).limit(1)).first()
        end = upto if beyond is None else beyond[0] - 1
    rows = connection.execute(select(*columns).where(*where, seq > after, seq <= end).order_by(seq))
    return Fetched([EntryRow(*row) for row in rows], end)


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
