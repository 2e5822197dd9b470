"""The entries of a receive queue as Spark's formats read them: in spans, from which none is missing unnoticed."""

from collections.abc import Iterator
from typing import Final

from sqlalchemy import ColumnElement, Connection, Engine, func, select

from discovery.registry import ReceiveQueue
from lr_client.spark.offsets import Span
from lr_client.spark.receive_queue import gone, require
from queues.receive import snapshot
from queues.receive.consuming import IN_LOG, IN_SNAPSHOT, Consumed
from queues.receive.snapshot import Held, SnapshotRow
from queues.receive.upcoming import EntryRow, Limits, Size, next_snapshot_rows, rows_within
from queues.tables import receive_entries as log
from queues.transactions import reading

#: Bounds of what is read at a time; a larger entry comes alone.
PAGE: Final = Limits(entries=2_000, bytes=4 * 1024 * 1024)


def count(connection: Connection, queue_id: int, span: Span) -> int:
    """Count the entries of a span."""
    if span.kind == IN_SNAPSHOT:
        return sum(block.rows for block in _held(connection, queue_id, span))
    return int(connection.execute(select(func.count()).where(*_of(queue_id, span))).scalar_one())


def measure(connection: Connection, queue: ReceiveQueue, span: Span, limits: Limits | None) -> tuple[int, int]:
    """Return the number of the last, and how many there are, of the first entries of *span* within *limits*.

    They are whole source transactions; a single one may exceed the limits. Raises `NeedsFullSyncError` when rows of a
    snapshot, which are numbered without gaps, are missing.
    """
    if span.kind == IN_LOG:
        return _measure_log(connection, queue.queue_id, span, limits)
    end, is_cut = _measure_snapshot(connection, queue.queue_id, span, limits)
    if end < span.upto and not is_cut:
        raise gone(queue, span, end - span.after, end - span.after + 1)
    return end, end - span.after


def _measure_log(connection: Connection, queue_id: int, span: Span, limits: Limits | None) -> tuple[int, int]:
    where = _of(queue_id, span)
    if limits is not None:
        following = select(log.c.seq, log.c.transaction_seq, func.length(log.c.payload)).where(*where)
        found = connection.execute(following.order_by(log.c.seq).limit(limits.entries + 1))
        sizes = [Size(*row) for row in found]
        taken = rows_within(sizes, limits) if sizes else 0
        if taken is not None:
            return (sizes[taken - 1].seq if taken else span.after), taken
        where = (*where, log.c.transaction_seq == sizes[0].transaction_seq)
    end, entries = connection.execute(select(func.max(log.c.seq), func.count()).where(*where)).one()
    return (end or span.after), entries


def _measure_snapshot(connection: Connection, queue_id: int, span: Span, limits: Limits | None) -> tuple[int, bool]:
    """Return the last row of those that are there within *limits*, and whether it is these that cut the rest off."""
    end, size = span.after, 0
    for rows, last_row, rows_size in _held(connection, queue_id, span):
        if limits is not None and (last_row - span.after > limits.entries or size + rows_size > limits.bytes):
            # Only here is the size of each row looked at.
            left = Limits(limits.entries - (end - span.after), limits.bytes - size)
            taken, rows_size = _fitting(connection, queue_id, span._replace(after=end, upto=last_row), left)
            taken = taken or int(end == span.after)
            if taken < rows:
                return end + taken, True
        end, size = last_row, size + rows_size
    return end, False


def _fitting(connection: Connection, queue_id: int, span: Span, limits: Limits) -> tuple[int, int]:
    """Return how many of the rows of *span* fit, and their size."""
    taken, size = 0, 0
    for row in _rows(connection, queue_id, span):
        if taken == limits.entries or size + len(row.payload) > limits.bytes:
            break
        taken, size = taken + 1, size + len(row.payload)
    return taken, size


def cut(connection: Connection, queue_id: int, span: Span, entries: int, pieces: int) -> list[tuple[Span, int]]:
    """Cut a span of so many entries into about that many equal pieces; return each with its number of entries."""
    step = max(1, -(-entries // pieces))
    if span.kind == IN_SNAPSHOT:
        inner = list(range(span.after + step, span.upto, step))
    else:
        place = func.row_number().over(order_by=log.c.seq).label("place")
        numbered = select(log.c.seq.label("number"), place).where(*_of(queue_id, span)).subquery()
        borders = select(numbered.c.number).where(numbered.c.place % step == 0, numbered.c.place < entries)
        inner = list(connection.execute(borders.order_by(numbered.c.number)).scalars())
    ends = zip([span.after, *inner], [*inner, span.upto], strict=True)
    return [
        (span._replace(after=after, upto=upto), min(step, entries - number * step))
        for number, (after, upto) in enumerate(ends)
    ]


def pages(engine: Engine, queue: ReceiveQueue, span: Span, entries: int) -> Iterator[list[EntryRow]]:
    """Read a span in pieces, each in a transaction of its own, so that a slow reader holds up nobody.

    Raises like `require` when the span is not that of the planned batch any more, and `NeedsFullSyncError` when there
    are not as many *entries* as there must be.
    """
    after, left = span.after, entries
    while left > 0:
        with reading(engine, snapshot=True) as connection:
            require(connection, queue, span)
            rows = _page(connection, queue.queue_id, span._replace(after=after))
        if not rows or len(rows) > left:
            raise gone(queue, span, entries - left + len(rows), entries)
        yield rows
        after, left = rows[-1].seq, left - len(rows)


def _page(connection: Connection, queue_id: int, span: Span) -> list[EntryRow]:
    if span.kind == IN_SNAPSHOT:
        seen = Consumed(IN_SNAPSHOT, span.sync_id, span.after, "", 0)
        return list(next_snapshot_rows(connection, queue_id, seen, span.upto, PAGE).rows)
    where = _of(queue_id, span)
    # Sizes first: payloads that do not fit are never read.
    following = select(log.c.seq, func.length(log.c.payload)).where(*where).order_by(log.c.seq)
    found = connection.execute(following.limit(PAGE.entries + 1))
    sizes = [Size(number, number, size) for number, size in found]
    taken = rows_within(sizes, PAGE) if sizes else 0
    if not taken:
        return []
    columns = [log.c[name] for name in EntryRow._fields]
    chosen = select(*columns).where(*where, log.c.seq <= sizes[taken - 1].seq).order_by(log.c.seq)
    return [EntryRow(*row) for row in connection.execute(chosen)]


def _of(queue_id: int, span: Span) -> tuple[ColumnElement[bool], ...]:
    return log.c.queue_id == queue_id, log.c.seq > span.after, log.c.seq <= span.upto


def _held(connection: Connection, queue_id: int, span: Span) -> list[Held]:
    return snapshot.held(connection, queue_id, span.sync_id, after=span.after, upto=span.upto)


def _rows(connection: Connection, queue_id: int, span: Span) -> Iterator[SnapshotRow]:
    return snapshot.rows(connection, queue_id, span.sync_id, after=span.after, upto=span.upto)
