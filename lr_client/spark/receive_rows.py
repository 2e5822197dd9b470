"""The entries of a receive queue as Spark's formats read them: in spans, from which none is missing unnoticed."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, Column, ColumnElement, Connection, Engine, Select, Table, func, literal, select

from discovery.registry import ReceiveQueue
from lr_client.spark.offsets import Span
from lr_client.spark.receive_queue import gone, require
from queues.receive.consuming import IN_SNAPSHOT
from queues.receive.upcoming import EntryRow, Limits, Size, rows_within
from queues.tables import receive_entries as log
from queues.tables import receive_snapshot_entries as snapshot
from queues.transactions import reading

#: Bounds of what is read at a time; a larger entry comes alone.
PAGE: Final = Limits(entries=2_000, bytes=4 * 1024 * 1024)


def count(connection: Connection, queue_id: int, span: Span) -> int:
    """Count the entries of a span."""
    rows = _Rows.of(queue_id, span)
    return int(connection.execute(select(func.count()).select_from(rows.table).where(*rows.where)).scalar_one())


def measure(connection: Connection, queue: ReceiveQueue, span: Span, limits: Limits | None) -> tuple[int, int]:
    """Return the number of the last, and how many there are, of the first entries of *span* within *limits*.

    They are whole source transactions; a single one may exceed the limits. Raises `NeedsFullSyncError` when rows of a
    snapshot, which are numbered without gaps, are missing.
    """
    end, entries = _measure(connection, queue.queue_id, span, limits)
    if span.kind == IN_SNAPSHOT and (not entries or entries != end - span.after):
        raise gone(queue, span, entries, max(end, span.after + 1) - span.after)
    return end, entries


def _measure(connection: Connection, queue_id: int, span: Span, limits: Limits | None) -> tuple[int, int]:
    rows = _Rows.of(queue_id, span)
    if limits is not None:
        following = select(rows.number, rows.transaction, func.length(rows.table.c.payload)).where(*rows.where)
        found = connection.execute(following.order_by(rows.number).limit(limits.entries + 1))
        sizes = [Size(*row) for row in found]
        taken = rows_within(sizes, limits) if sizes else 0
        if taken is not None:
            return (sizes[taken - 1].seq if taken else span.after), taken
        rows = rows.also(rows.transaction == sizes[0].transaction_seq)
    end, entries = connection.execute(select(func.max(rows.number), func.count()).where(*rows.where)).one()
    return (end or span.after), entries


def cut(connection: Connection, queue_id: int, span: Span, entries: int, pieces: int) -> list[tuple[Span, int]]:
    """Cut a span of so many entries into about that many equal pieces; return each with its number of entries."""
    step = max(1, -(-entries // pieces))
    if span.kind == IN_SNAPSHOT:
        inner = list(range(span.after + step, span.upto, step))
    else:
        rows = _Rows.of(queue_id, span)
        place = func.row_number().over(order_by=rows.number).label("place")
        numbered = select(rows.number.label("number"), place).where(*rows.where).subquery()
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
    rows = _Rows.of(queue_id, span)
    # Sizes first: payloads that do not fit are never read.
    following = select(rows.number, func.length(rows.table.c.payload)).where(*rows.where).order_by(rows.number)
    found = connection.execute(following.limit(PAGE.entries + 1))
    sizes = [Size(number, number, size) for number, size in found]
    taken = rows_within(sizes, PAGE) if sizes else 0
    if not taken:
        return []
    chosen = rows.select().where(rows.number <= sizes[taken - 1].seq).order_by(rows.number)
    return [EntryRow(*row) for row in connection.execute(chosen)]


class _Rows(NamedTuple):
    """The rows of a span: the table, the columns that number them, and the condition."""

    table: Table
    number: Column[int]
    transaction: Column[int]
    where: tuple[ColumnElement[bool], ...]

    @classmethod
    def of(cls, queue_id: int, span: Span) -> "_Rows":
        if span.kind == IN_SNAPSHOT:
            own = (snapshot.c.queue_id == queue_id, snapshot.c.sync_id == span.sync_id)
            rows = cls(snapshot, snapshot.c.row_no, snapshot.c.row_no, own)
        else:
            rows = cls(log, log.c.seq, log.c.transaction_seq, (log.c.queue_id == queue_id,))
        return rows.also(rows.number > span.after, rows.number <= span.upto)

    def also(self, *conditions: ColumnElement[bool]) -> "_Rows":
        return self._replace(where=(*self.where, *conditions))

    def select(self) -> Select[Any]:
        committed = self.table.c.get("committed_us", literal(0, BigInteger))
        columns = (self.number, self.transaction, committed, self.table.c.item_key, self.table.c.payload)
        return select(*columns).where(*self.where)
