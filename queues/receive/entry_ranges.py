"""Read the log entries of a receive queue by ranges of sequence numbers, `after < seq <= upto`; nothing is deleted."""

from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, func, select

from queues.database.tables import receive_entries as log
from queues.receive.batches import ReceivedRow, Size
from queues.receive.entries import ENTRY_SIZE


class EntryRange(NamedTuple):
    """The entries of one queue with `after < seq <= upto`."""

    queue_id: int
    after: int
    upto: int


def count_entries(connection: Connection, wanted: EntryRange) -> int:
    """Count the entries of a range."""
    return int(connection.execute(select(func.count()).where(*_of(wanted))).scalar_one())


def first_sizes(connection: Connection, wanted: EntryRange, limit: int) -> list[Size]:
    """Return the sizes of the first entries of a range, without reading payloads."""
    following = select(log.c.seq, log.c.transaction_seq, ENTRY_SIZE).where(*_of(wanted))
    return [Size(*row) for row in connection.execute(following.order_by(log.c.seq).limit(limit))]


def end_and_count(
    connection: Connection, wanted: EntryRange, transaction_seq: int | None = None
) -> tuple[int | None, int]:
    """Return the last number in a range (None if it is empty) and the number of its entries.

    With *transaction_seq*, only the entries of that source transaction count.
    """
    chosen = select(func.max(log.c.seq), func.count()).where(*_of(wanted))
    if transaction_seq is not None:
        chosen = chosen.where(log.c.transaction_seq == transaction_seq)
    end, entries = connection.execute(chosen).one()
    return end, entries


def every_nth(connection: Connection, wanted: EntryRange, step: int, entries: int) -> list[int]:
    """Return the number of every *step*-th of the *entries* in a range, without the last one."""
    place = func.row_number().over(order_by=log.c.seq).label("place")
    numbered = select(log.c.seq.label("number"), place).where(*_of(wanted)).subquery()
    borders = select(numbered.c.number).where(numbered.c.place % step == 0, numbered.c.place < entries)
    return list(connection.execute(borders.order_by(numbered.c.number)).scalars())


def entries_in(connection: Connection, wanted: EntryRange) -> list[ReceivedRow]:
    """Return the entries of a range, in order."""
    chosen = select(*(log.c[name] for name in ReceivedRow._fields)).where(*_of(wanted)).order_by(log.c.seq)
    return [ReceivedRow(*row) for row in connection.execute(chosen)]


def _of(wanted: EntryRange) -> tuple[ColumnElement[bool], ...]:
    return log.c.queue_id == wanted.queue_id, log.c.seq > wanted.after, log.c.seq <= wanted.upto
