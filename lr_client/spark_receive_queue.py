"""A receive queue as Spark's formats read it: in numbered spans, and what is missing from one is always noticed."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, Column, ColumnElement, Connection, Engine, Select, Table, func, literal, select

from discovery.registry import ReceiveQueue
from lr_client.spark_offsets import Offset, Span
from queues.errors import NeedsFullSyncError, TransientError
from queues.receive.consuming import IN_LOG, IN_SNAPSHOT, Consumed, Received
from queues.receive.upcoming import EntryRow, Limits, Size, rows_within
from queues.tables import consumers, receive_headers, receive_marks
from queues.tables import receive_entries as log
from queues.tables import receive_snapshot_entries as snapshot
from queues.transactions import reading

#: Bounds of what is read at a time; a larger entry comes alone.
PAGE: Final = Limits(entries=2_000, bytes=4 * 1024 * 1024)


class View(NamedTuple):
    """Both sides' marks of one queue at one moment; `total` counts what subscribers have ever taken off."""

    consumed: Consumed
    total: int
    received: Received

    @property
    def start(self) -> Offset:
        """Where a subscriber that begins now begins."""
        return Offset(*self.consumed, total=self.total)


def look(connection: Connection, queue_id: int) -> View:
    """Read both sides' marks in one statement; those of a queue without a subscriber are at the origin."""
    marks = [receive_marks.c[name] for name in Received._fields]
    own = [consumers.c[name] for name in (*Consumed._fields, "applied_total")]
    row = connection.execute(
        select(*marks, *own)
        .outerjoin_from(receive_marks, consumers, consumers.c.queue_id == receive_marks.c.queue_id)
        .where(receive_marks.c.queue_id == queue_id)
    ).one()
    received = Received(*row[: len(marks)])
    phase, *rest = row[len(marks) :]
    if phase is None:
        return View(Consumed(IN_LOG, "", 0, "", 0), 0, received)
    return View(Consumed(phase, *rest[:-1]), rest[-1], received)


# --- what is there ----------------------------------------------------------------------------------------------


def by_branch(connection: Connection, queue_id: int, span: Span) -> Iterator[Span]:
    """Cut a span of the log where the branch changes; one of a snapshot stays whole."""
    if span.kind == IN_SNAPSHOT:
        yield span
        return
    while span.upto > span.after:
        branch = _branch_at(connection, queue_id, span.after + 1) or span.branch
        upto = span.upto
        if branch != span.branch:
            last = select(func.max(receive_headers.c.seq)).where(
                *_headers(queue_id), receive_headers.c.branch == branch
            )
            upto = min(upto, connection.execute(last).scalar_one())
        yield span._replace(branch=branch, upto=upto)
        span = span._replace(after=upto)


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


# --- reading ----------------------------------------------------------------------------------------------------


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


def require(connection: Connection, queue: ReceiveQueue, span: Span) -> None:
    """Make sure that the entries of *span* are those that were received when it was planned.

    Raises `TransientError` when a newer snapshot has replaced them, `NeedsFullSyncError` when the source has lost
    them and the sink went back.
    """
    received = look(connection, queue.queue_id).received
    if received.sync_id != span.sync_id:
        raise TransientError(
            f"a newer snapshot from {queue.source} has replaced what was being read from {queue.name}: "
            "start again, it goes on with that snapshot"
        )
    if span.kind == IN_SNAPSHOT:
        return
    same = span.branch == received.branch or span.branch == _branch_at(connection, queue.queue_id, span.upto)
    if span.upto > received.boundary_seq or not same:
        raise NeedsFullSyncError(
            f"{queue.name} does not reach {span.branch}@{span.upto} any more: {queue.source} has lost those entries "
            f"and went back (it is at {received.branch}@{received.boundary_seq}). "
            f"Request a snapshot from {queue.source}, then start again"
        )


def gone(queue: ReceiveQueue, span: Span, found: int, entries: int) -> NeedsFullSyncError:
    """Return the error that says that entries of a span were taken off."""
    what = f"snapshot {span.sync_id}" if span.kind == IN_SNAPSHOT else "the log"
    return NeedsFullSyncError(
        f"of {entries} entries between {span.after} and {span.upto} of {what} only {found} are left in {queue.name}: "
        f"another subscriber has taken the rest off. Request a snapshot from {queue.source}, then start again"
    )


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


def _branch_at(connection: Connection, queue_id: int, number: int) -> str | None:
    """Return the branch that *number* belongs to: that of the tick which holds it."""
    holding = select(receive_headers.c.branch).where(*_headers(queue_id), receive_headers.c.seq >= number)
    return connection.execute(holding.order_by(receive_headers.c.seq).limit(1)).scalar()


def _headers(queue_id: int) -> tuple[ColumnElement[bool], ...]:
    return (receive_headers.c.queue_id == queue_id,)


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
