"""Looking into the snapshot queue of a source: rows of complete snapshots that their sites do not have yet."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from queues import names
from queues.browse.entries import COUNTED, SNAPSHOT, Count, Entry, Page, QueueSummary, Wanted, fitting
from queues.errors import UsageError
from queues.schema import require
from queues.snapshots.states import Snapshot, SnapshotState, snapshot_of
from queues.tables import snapshot_entries, snapshot_parts, snapshots


class _Row(NamedTuple):
    """One row of a snapshot without its payload; `number` counts from 1 over all its parts."""

    number: int
    part: int
    attempt: int
    ord: int
    item_key: str | None
    size: int


def read(connection: Connection, wanted: Wanted) -> Page:
    """See `queues.browse.looking.browse`: snapshot after snapshot, oldest request first."""
    last, after = _parse(wanted.after)
    waiting = [found for found in _ready(connection) if _is_wanted(found, wanted)]
    if last and last not in (found.sync_id for found in waiting):
        raise UsageError(f"no rows of snapshot {last} are kept for sending: begin without a position")
    begin = next((index for index, found in enumerate(waiting) if found.sync_id == last), 0)
    page: list[Entry] = []
    for found in waiting[begin:]:
        left = Wanted(
            limit=wanted.limit - len(page),
            preview_bytes=wanted.preview_bytes,
            page_bytes=wanted.page_bytes - sum(len(entry.payload) for entry in page),
        )
        rows = _rows(connection, found.stored_under, after, left.limit + 1)
        taken = fitting([row.size for row in rows], left)
        page += _entries(connection, found, rows[:taken], wanted.preview_bytes)
        if taken < len(rows):
            return Page(page, page[-1].position)
        after = 0
    return Page(page)


def summary(connection: Connection) -> QueueSummary:
    """See `queues.browse.looking.summaries`."""
    states = connection.execute(select(snapshots.c.state, func.count()).group_by(snapshots.c.state)).all()
    counts = {SnapshotState(state): count for state, count in states}
    ready = _ready(connection)
    rows = sum(found.rows for found in ready)
    unfinished = (SnapshotState.REQUESTED, SnapshotState.BUILDING, SnapshotState.READY)
    words = ", ".join(f"{counts[state]:,} {state.value}" for state in unfinished if state in counts)
    oldest = min((found.requested_us for found in ready), default=0)
    return QueueSummary(names.SEND_SNAP_SYNC, Count(rows), oldest, f"snapshots: {words}" if words else "")


def _ready(connection: Connection) -> list[Snapshot]:
    chosen = select(snapshots).where(snapshots.c.state == SnapshotState.READY)
    rows = connection.execute(chosen.order_by(snapshots.c.requested_us, snapshots.c.sync_id).limit(COUNTED))
    return [snapshot_of(row) for row in rows]


def _is_wanted(found: Snapshot, wanted: Wanted) -> bool:
    return wanted.client in (None, found.client) and wanted.destination in (None, found.destination)


def _parse(after: str) -> tuple[str, int]:
    sync_id, _, row = after.partition(":")
    if after and not (sync_id and row.isdecimal()):
        raise UsageError(f"{after!r} is not a position in a snapshot (<snapshot>:<row>): use one that is shown")
    return sync_id, int(row or 0)


def _rows(connection: Connection, sync_id: str, after: int, limit: int) -> list[_Row]:
    """Return rows *after* + 1, + 2, … of a snapshot in the order in which they are sent."""
    found: list[_Row] = []
    begin = 0
    parts = select(snapshot_parts).where(snapshot_parts.c.sync_id == sync_id).order_by(snapshot_parts.c.part)
    for part in connection.execute(parts).all():
        end = begin + part.row_count
        if end > after and len(found) < limit:
            skip = max(after - begin, 0)
            entry = snapshot_entries.c
            own = (entry.sync_id == sync_id, entry.part == part.part, entry.attempt == part.attempt)
            chosen = select(entry.ord, entry.item_key, func.length(entry.payload)).where(*own, entry.ord > skip)
            for ord_, item_key, size in connection.execute(chosen.order_by(entry.ord).limit(limit - len(found))):
                found.append(_Row(begin + ord_, part.part, part.attempt, ord_, item_key, size))
        begin = end
    return found


def _entries(connection: Connection, found: Snapshot, rows: Sequence[_Row], preview_bytes: int) -> list[Entry]:
    site = require(connection).site_id
    return [
        Entry(
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
            payload=_payload(connection, found.stored_under, row, preview_bytes),
        )
        for row in rows
    ]


def _payload(connection: Connection, sync_id: str, row: _Row, size: int) -> bytes:
    entry = snapshot_entries.c
    itself = (entry.sync_id == sync_id, entry.part == row.part, entry.attempt == row.attempt, entry.ord == row.ord)
    return bytes(connection.execute(select(func.substr(entry.payload, 1, size)).where(*itself)).scalar_one() or b"")
