"""Forgetting what nobody will read of snapshots: rows of dead attempts and finished syncs, then old statuses."""

from collections.abc import Iterator

from sqlalchemy import Connection, delete, exists, not_, select

from queues import dialects
from queues.snapshots.states import (
    UNFINISHED,
    SnapshotState,
    build_number,
    cancel_superseded,
    part_attempts_from,
    superseded,
)
from queues.snapshots.stored import stored_ids, written_parts
from queues.tables import snapshot_entries, snapshot_parts, snapshots

#: How long a finished snapshot that is not the newest of its destination stays listed, in seconds.
KEEP_STATUSES = 7 * 86_400.0


def collect_garbage(connection: Connection, *, limit_rows: int = 2_000, keep: float = KEEP_STATUSES) -> int:
    """Delete up to *limit_rows* entries that nobody will read; return how many, 0 when none is left.

    One bounded transaction of `queues.transactions.writing` a call: repeat until it returns 0. Finished statuses
    older than *keep* seconds go as well, but never the newest of a client and destination. Repeating it is harmless.
    """
    cancel_superseded(connection)
    deleted = 0
    for sync_id in stored_ids(connection):
        for part, attempt in _dead(connection, sync_id):
            deleted += _delete(connection, sync_id, part, attempt, limit_rows - deleted)
            if deleted >= limit_rows:
                return deleted
    _forget(connection, keep)
    return deleted


def _dead(connection: Connection, sync_id: str) -> Iterator[tuple[int, int]]:
    """Yield every (part, attempt) of *sync_id* that has rows and will never be published (again)."""
    is_ready, living = _builds(connection, sync_id)
    published = {
        (row.part, row.attempt)
        for row in connection.execute(
            select(snapshot_parts.c.part, snapshot_parts.c.attempt).where(snapshot_parts.c.sync_id == sync_id)
        )
    }
    for pair in written_parts(connection, sync_id):
        is_growing = living is not None and pair[1] >= part_attempts_from(living)
        if not is_growing and not (is_ready and pair in published):
            yield pair


def _builds(connection: Connection, sync_id: str) -> tuple[bool, int | None]:
    """Tell whether a site waits for what is stored under *sync_id*, and which attempt is writing there, if any."""
    ours = snapshots.c.build.like(f"{sync_id}.%") & snapshots.c.state.in_((SnapshotState.READY, SnapshotState.BUILDING))
    found = connection.execute(select(snapshots.c.state, snapshots.c.build).where(ours).distinct()).all()
    living = [build_number(row.build) for row in found if row.state == SnapshotState.BUILDING]
    own = snapshots.c.sync_id == sync_id, snapshots.c.state == SnapshotState.REQUESTED
    # Its next attempt may begin at any moment, also while this is being decided.
    living += [number + 1 for number in connection.execute(select(snapshots.c.attempt).where(*own)).scalars()]
    return any(row.state == SnapshotState.READY for row in found), max(living, default=None)


def _delete(connection: Connection, sync_id: str, part: int, attempt: int, limit: int) -> int:
    entries = snapshot_entries.c
    rows = [entries.sync_id == sync_id, entries.part == part, entries.attempt == attempt]
    beyond = connection.execute(select(entries.ord).where(*rows).order_by(entries.ord).offset(limit).limit(1)).scalar()
    if beyond is not None:
        rows.append(entries.ord < beyond)
    return connection.execute(delete(snapshot_entries).where(*rows)).rowcount


def _forget(connection: Connection, keep: float) -> None:
    before = dialects.of(connection).now_us(connection) - int(keep * 1_000_000)
    connection.execute(
        delete(snapshots).where(snapshots.c.state.not_in(UNFINISHED), snapshots.c.updated_us < before, superseded())
    )
    kept = exists().where(
        snapshots.c.build.like(snapshot_parts.c.sync_id + ".%"), snapshots.c.state == SnapshotState.READY
    )
    connection.execute(delete(snapshot_parts).where(not_(kept)))
