"""Looking into a receive queue: what has arrived and is not applied yet."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Connection, Row, func, literal, null, select

from queues import names
from queues.browse.entries import (
    COUNTED,
    LOG_ENTRY,
    SNAPSHOT,
    STAGED,
    Count,
    Entry,
    Page,
    QueueSummary,
    Wanted,
    fitting,
)
from queues.errors import UsageError
from queues.names import ClientName
from queues.tables import receive_entries as log
from queues.tables import receive_marks, receive_queues
from queues.tables import receive_snapshot_entries as snapshot


class _Part(NamedTuple):
    """One kind of entries in a queue; `number` is their order."""

    kind: str
    prefix: str
    number: ColumnElement[int]
    transaction: ColumnElement[Any]
    written_us: ColumnElement[int]
    item_key: ColumnElement[Any]
    payload: ColumnElement[bytes]
    chosen: tuple[ColumnElement[bool], ...]


def read(connection: Connection, queue: str, wanted: Wanted) -> Page:
    """See `queues.browse.looking`: first the snapshot that is being applied, then the log, then what is staged."""
    found = _queue(connection, queue)
    if wanted.destination is not None:
        raise UsageError(f"{queue} is a receive queue, all in it is for this site: leave out the destination")
    parts, after = _from(_parts(found), queue, wanted.after)
    page: list[Entry] = []
    for part in parts if wanted.client in (None, found.client) else ():
        left = Wanted(
            limit=wanted.limit - len(page),
            preview_bytes=wanted.preview_bytes,
            page_bytes=wanted.page_bytes - sum(len(entry.payload) for entry in page),
        )
        sizes = connection.execute(_sizes(part, after).limit(left.limit + 1)).all()
        taken = fitting([size for _, size in sizes], left)
        if taken:
            page += _entries(connection, found, part, (after, sizes[taken - 1][0]), wanted.preview_bytes)
        if taken < len(sizes):
            return Page(page, page[-1].position)
        after = 0
    return Page(page)


def summaries(connection: Connection) -> Iterator[QueueSummary]:
    """See `queues.browse.looking.summaries`."""
    for found in connection.execute(_QUEUES.order_by(receive_queues.c.name)).all():
        counts = {part.kind: _count(connection, part) for part in _parts(found)}
        oldest = select(log.c.committed_us).where(log.c.queue_id == found.queue_id).order_by(log.c.seq).limit(1)
        words = [f"{count:,} of a snapshot" for count in [counts[SNAPSHOT]] if count]
        words += [f"{count:,} of a snapshot that is arriving" for count in [counts[STAGED]] if count]
        total = sum(counts.values())
        yield QueueSummary(
            found.name,
            Count(min(total, COUNTED), is_least=total > COUNTED),
            connection.execute(oldest).scalar() or 0,
            "; ".join(words),
        )


_QUEUES = select(
    receive_queues.c.queue_id,
    receive_queues.c.name,
    receive_queues.c.client,
    receive_queues.c.source,
    func.coalesce(receive_marks.c.sync_id, "").label("sync_id"),
    func.coalesce(receive_marks.c.staging_sync_id, "").label("staging_sync_id"),
).join_from(receive_queues, receive_marks, receive_marks.c.queue_id == receive_queues.c.queue_id, isouter=True)


def _queue(connection: Connection, queue: str) -> Row[*tuple[Any, ...]]:
    found = connection.execute(_QUEUES.where(receive_queues.c.name == queue)).first()
    if found is None:
        raise UsageError(f"there is no queue {queue!r} at this site: `lrq browse` lists those that there are")
    return found


def _parts(found: Row[*tuple[Any, ...]]) -> list[_Part]:
    """Return the parts of a queue in the order in which they are applied."""
    entries = _Part(
        LOG_ENTRY, "", log.c.seq, log.c.transaction_seq, log.c.committed_us, log.c.item_key, log.c.payload,
        (log.c.queue_id == found.queue_id,),
    )  # fmt: skip
    return [_rows_of(found, SNAPSHOT, found.sync_id), entries, _rows_of(found, STAGED, found.staging_sync_id)]


def _rows_of(found: Row[*tuple[Any, ...]], kind: str, sync_id: str) -> _Part:
    own = (snapshot.c.queue_id == found.queue_id, snapshot.c.sync_id == sync_id)
    unknown: ColumnElement[int] = literal(0, BigInteger)
    return _Part(
        kind, f"{kind}:", snapshot.c.row_no, null(), unknown, snapshot.c.item_key, snapshot.c.payload, own
    )  # fmt: skip


def _from(parts: Sequence[_Part], queue: str, after: str) -> tuple[Sequence[_Part], int]:
    """Return the parts that are left after a position, and the number in the first of them."""
    if not after:
        return parts, 0
    for index, part in enumerate(parts):
        number = after.removeprefix(part.prefix)
        if after.startswith(part.prefix) and number.isdecimal():
            return parts[index:], int(number)
    raise UsageError(f"{after!r} is not a position in {queue}: use one that is shown")


def _sizes(part: _Part, after: int) -> Any:  # noqa: ANN401 - a statement
    return select(part.number, func.length(part.payload)).where(*part.chosen, part.number > after).order_by(part.number)


def _count(connection: Connection, part: _Part) -> int:
    some = select(part.number).where(*part.chosen).limit(COUNTED + 1).subquery()
    return connection.execute(select(func.count()).select_from(some)).scalar_one()


def _entries(
    connection: Connection, found: Row[*tuple[Any, ...]], part: _Part, span: tuple[int, int], preview_bytes: int
) -> list[Entry]:
    after, upto = span
    rows = connection.execute(
        select(
            part.number,
            part.transaction,
            part.written_us,
            part.item_key,
            func.length(part.payload),
            func.substr(part.payload, 1, preview_bytes),
        )
        .where(*part.chosen, part.number > after, part.number <= upto)
        .order_by(part.number)
    )
    return [
        Entry(
            position=f"{part.prefix}{number}",
            kind=part.kind,
            client=found.client,
            source=found.source,
            tags=(names.receive_tag(ClientName(found.client)),),
            outstanding=(),
            transaction=transaction,
            tick=None,
            seq=number,
            item_key=item_key,
            partition_key=None,
            written_us=written_us,
            size=size,
            payload=bytes(payload or b""),
        )
        for number, transaction, written_us, item_key, size, payload in rows
    ]
