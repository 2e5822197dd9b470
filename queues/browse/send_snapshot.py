"""Browse the snapshot queue: the rows of complete snapshots that their destinations do not have yet."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from sqlalchemy import Connection, func, select

from queues import names
from queues.browse.entries import SNAPSHOT, Entry, Page, QueueSummary, Wanted
from queues.counts import COUNTED, Count
from queues.database.schema import require
from queues.database.tables.snapshots import snapshots
from queues.errors import UsageError
from queues.positions import is_number
from queues.send_snapshot.blocks import read_blocks
from queues.send_snapshot.states import SnapshotSync, snapshot_of
from queues.states import SnapshotState

#: Bytes of rows that are unpacked at once; a row above this size is unpacked alone.
_UNPACKED: Final = 1024 * 1024


class _Row(NamedTuple):
    """One row of a snapshot, with the first bytes of its payload; `number` counts from 1 over all parts."""

    number: int
    item_key: str | None
    size: int
    preview: bytes


def read(connection: Connection, wanted: Wanted) -> Page:
    """See `queues.browse.api.browse`; snapshots come in the order of their requests."""
    last, after = _parse(wanted.after)
    waiting = [found for found in _ready(connection) if _is_wanted(found, wanted)]
    if last and last not in (found.sync_id for found in waiting):
        raise UsageError(f"no rows of snapshot {last} are kept for sending: begin without a position")
    begin = next((index for index, found in enumerate(waiting) if found.sync_id == last), 0)
    site = require(connection).site_id
    page: list[Entry] = []
    left = wanted.page_bytes
    for found in waiting[begin:]:
        for row in _rows(connection, found, after, wanted.preview_bytes):
            left -= len(row.preview)
            if len(page) >= wanted.limit or (page and left < 0):
                return Page(page, page[-1].position)
            page.append(_entry(found, row, site))
        after = 0
    return Page(page)


def summary(connection: Connection) -> QueueSummary:
    """See `queues.browse.api.summaries`."""
    states = connection.execute(select(snapshots.c.state, func.count()).group_by(snapshots.c.state)).all()
    counts = {SnapshotState(state): count for state, count in states}
    ready = _ready(connection)
    rows = sum(found.rows for found in ready)
    unfinished = (SnapshotState.REQUESTED, SnapshotState.BUILDING, SnapshotState.READY)
    words = ", ".join(f"{counts[state]:,} {state.value}" for state in unfinished if state in counts)
    oldest = min((found.requested_us for found in ready), default=0)
    return QueueSummary(names.SEND_SNAP_SYNC, Count(rows), oldest, f"snapshots: {words}" if words else "")


def _ready(connection: Connection) -> list[SnapshotSync]:
    chosen = select(snapshots).where(snapshots.c.state == SnapshotState.READY)
    rows = connection.execute(chosen.order_by(snapshots.c.requested_us, snapshots.c.sync_id).limit(COUNTED))
    return [snapshot_of(row) for row in rows]


def _is_wanted(found: SnapshotSync, wanted: Wanted) -> bool:
    return wanted.client in (None, found.client) and wanted.destination in (None, found.destination)


def _parse(after: str) -> tuple[str, int]:
    sync_id, _, row = after.partition(":")
    if after and not (sync_id and is_number(row)):
        raise UsageError(f"{after!r} is not a position in a snapshot (<snapshot>:<row>): use one that is shown")
    return sync_id, int(row or 0)


def _rows(connection: Connection, found: SnapshotSync, after: int, preview_bytes: int) -> Iterator[_Row]:
    """Yield the rows of a snapshot after number *after*, in the order of sending."""
    while blocks := read_blocks(connection, found.sync_id, after_row=after, limit_bytes=_UNPACKED):
        for block in blocks:
            rows = zip(*block.unpack(), strict=True)
            for number, (payload, item_key) in enumerate(rows, block.first_row):
                if number > after:
                    yield _Row(number, item_key, len(payload), payload[:preview_bytes])
        after = blocks[-1].last_row


def _entry(found: SnapshotSync, row: _Row, site: str) -> Entry:
    return Entry(
        position=f"{found.sync_id}:{row.number}",
        kind=SNAPSHOT,
        client=found.client,
        source=site,
        tags=(names.snap_sync_tag(found.destination),),
        outstanding=(found.destination,),
        transaction=None,
        tick=None,
        seq=row.number,
        item_key=row.item_key,
        partition_key=None,
        written_us=0,
        size=row.size,
        payload=row.preview,
    )
