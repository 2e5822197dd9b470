"""Browse a receive queue: the entries that have arrived and are not applied yet."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, case, func, select

from queues import names
from queues.browse.entries import (
    LOG_ENTRY,
    SNAPSHOT,
    STAGED,
    Entry,
    Page,
    QueueSummary,
    Wanted,
)
from queues.counts import COUNTED, Count
from queues.database.tables.consumers import consumers
from queues.database.tables.receive import receive_marks, receive_queues
from queues.errors import UsageError
from queues.names import ClientName
from queues.positions import is_number
from queues.receive import log_blocks, snapshot_blocks
from queues.receive.queue_marks import LOG_PROGRESS
from queues.receive.received_rows import ReceivedRow
from queues.receive.snapshot_blocks import SnapshotRow


class _Shown(NamedTuple):
    """The shown fields of one entry; `payload` is its first bytes."""

    number: int
    transaction: int | None
    written_us: int
    item_key: str | None
    size: int
    payload: bytes
    headers: str | None = None
    partition_key: str | None = None


class _Part(NamedTuple):
    """The entries of one kind in a queue. `held` is their number, for the log counted up to a limit.

    `page` returns one page of entries after a number, in order, and whether more follow.
    """

    kind: str
    prefix: str
    held: int
    page: Callable[[int, Wanted], tuple[list[_Shown], bool]]


def read(connection: Connection, queue: str, wanted: Wanted) -> Page:
    """See `queues.browse.api`; the order is the snapshot being applied, the log, the snapshot being staged."""
    found = _queue(connection, queue)
    if wanted.destination is not None:
        raise UsageError(f"{queue} is a receive queue, all in it is for this site: leave out the destination")
    parts, after = _from(_parts(connection, found), queue, wanted.after)
    page: list[Entry] = []
    for part in parts if wanted.client in (None, found.client) else ():
        left = Wanted(
            limit=wanted.limit - len(page),
            preview_bytes=wanted.preview_bytes,
            page_bytes=wanted.page_bytes - sum(len(entry.payload) for entry in page),
        )
        shown, more = part.page(after, left)
        page += [_entry(found, part, each) for each in shown]
        if more:
            return Page(page, page[-1].position)
        after = 0
    return Page(page)


def summaries(connection: Connection) -> Iterator[QueueSummary]:
    """See `queues.browse.api.summaries`."""
    for found in connection.execute(_QUEUES.order_by(receive_queues.c.name)).all():
        counts = {part.kind: part.held for part in _parts(connection, found)}
        words = [f"{count:,} of a snapshot" for count in [counts[SNAPSHOT]] if count]
        words += [f"{count:,} of a snapshot that is arriving" for count in [counts[STAGED]] if count]
        total = sum(counts.values())
        yield QueueSummary(
            found.name,
            Count(min(total, COUNTED), is_least=total > COUNTED),
            log_blocks.oldest_us(connection, found.queue_id, found.applied_seq),
            "; ".join(words),
        )


_QUEUES = (
    select(
        receive_queues.c.queue_id,
        receive_queues.c.name,
        receive_queues.c.client,
        receive_queues.c.source,
        func.coalesce(receive_marks.c.sync_id, "").label("sync_id"),
        func.coalesce(receive_marks.c.sync_rows, 0).label("sync_rows"),
        func.coalesce(receive_marks.c.staging_sync_id, "").label("staging_sync_id"),
        func.coalesce(receive_marks.c.staging_rows, 0).label("staging_rows"),
        case((consumers.c.sync_id == receive_marks.c.sync_id, consumers.c.row_no), else_=0).label("applied_rows"),
        LOG_PROGRESS.label("applied_seq"),
    )
    .outerjoin_from(receive_queues, receive_marks, receive_marks.c.queue_id == receive_queues.c.queue_id)
    .outerjoin(consumers, consumers.c.queue_id == receive_queues.c.queue_id)
)


def _queue(connection: Connection, queue: str) -> Row[*tuple[Any, ...]]:
    found = connection.execute(_QUEUES.where(receive_queues.c.name == queue)).first()
    if found is None:
        raise UsageError(f"there is no queue {queue!r} at this site: `lrq browse` lists those that there are")
    return found


def _parts(connection: Connection, found: Row[*tuple[Any, ...]]) -> list[_Part]:
    """Return the parts of a queue in the order in which they are applied."""
    entries = log_blocks.count(connection, found.queue_id, found.applied_seq, COUNTED + 1)

    def of_snapshot(kind: str, sync_id: str, applied: int, upto: int) -> _Part:
        def page(after: int, wanted: Wanted) -> tuple[list[_Shown], bool]:
            begin = max(after, applied)
            rows = snapshot_blocks.rows(connection, found.queue_id, sync_id, after=begin, upto=upto)
            return _page(map(_snapshot_row, rows), wanted)

        return _Part(kind, f"{kind}:", upto - applied, page)

    def of_log(after: int, wanted: Wanted) -> tuple[list[_Shown], bool]:
        rows = log_blocks.rows(connection, found.queue_id, max(after, found.applied_seq))
        return _page(map(_log_row, rows), wanted)

    return [
        of_snapshot(SNAPSHOT, found.sync_id, found.applied_rows, found.sync_rows),
        _Part(LOG_ENTRY, "", entries, of_log),
        of_snapshot(STAGED, found.staging_sync_id, 0, found.staging_rows),
    ]


def _from(parts: Sequence[_Part], queue: str, after: str) -> tuple[Sequence[_Part], int]:
    """Return the parts that follow a position, and the number of the position in the first of them."""
    if not after:
        return parts, 0
    for index, part in enumerate(parts):
        number = after.removeprefix(part.prefix)
        if after.startswith(part.prefix) and is_number(number):
            return parts[index:], int(number)
    raise UsageError(f"{after!r} is not a position in {queue}: use one that is shown")


def _log_row(row: ReceivedRow) -> _Shown:
    shown = row.seq, row.transaction_seq, row.committed_us, row.item_key, len(row.payload), row.payload
    return _Shown(*shown, row.headers, row.partition_key)


def _snapshot_row(row: SnapshotRow) -> _Shown:
    return _Shown(row.row_no, None, 0, row.item_key, len(row.payload), row.payload)


def _page(rows: Iterator[_Shown], wanted: Wanted) -> tuple[list[_Shown], bool]:
    """Return the first of *rows*, with whole payloads, that fit on a page; their payloads are shortened."""
    shown: list[_Shown] = []
    left = wanted.page_bytes
    for row in rows:
        beginning = row.payload[: wanted.preview_bytes]
        left -= len(beginning)
        if len(shown) == wanted.limit or (shown and left < 0):
            return shown, True
        shown.append(row._replace(payload=beginning))
    return shown, False


def _entry(found: Row[*tuple[Any, ...]], part: _Part, shown: _Shown) -> Entry:
    return Entry(
        position=f"{part.prefix}{shown.number}",
        kind=part.kind,
        client=found.client,
        source=found.source,
        tags=(names.receive_tag(ClientName(found.client)),),
        outstanding=(),
        transaction=shown.transaction,
        tick=None,
        seq=shown.number,
        item_key=shown.item_key,
        partition_key=shown.partition_key,
        written_us=shown.written_us,
        size=shown.size,
        payload=shown.payload,
        headers=shown.headers,
    )
