"""Forgetting what nobody will read of snapshots: rows of dead attempts and finished syncs, then old statuses."""

from collections.abc import Iterator

from sqlalchemy import Connection, delete, exists, not_, select, tuple_

from queues import dialects
from queues.snapshots.states import UNFINISHED, SnapshotState, cancel_superseded, part_attempts_from, superseded
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
    for sync_id in _stored(connection):
        for part, attempt in _dead(connection, sync_id):
            deleted += _delete(connection, sync_id, part, attempt, limit_rows - deleted)
            if deleted >= limit_rows:
                return deleted
    _forget(connection, keep)
    return deleted


def _stored(connection: Connection) -> Iterator[str]:
    # Distinct values one index look-up at a time: the table may be huge, its syncs are few.
    following = select(snapshot_entries.c.sync_id).order_by(snapshot_entries.c.sync_id).limit(1)
    sync_id = connection.execute(following).scalar()
    while sync_id is not None:
        yield sync_id
        sync_id = connection.execute(following.where(snapshot_entries.c.sync_id > sync_id)).scalar()


def _dead(connection: Connection, sync_id: str) -> Iterator[tuple[int, int]]:
    """Yield every (part, attempt) of *sync_id* that has rows and will never be published (again)."""
    state, attempt = connection.execute(
        select(snapshots.c.state, snapshots.c.attempt).where(snapshots.c.sync_id == sync_id)
    ).one_or_none() or (None, 0)
    published = {
        (row.part, row.attempt)
        for row in connection.execute(
            select(snapshot_parts.c.part, snapshot_parts.c.attempt).where(snapshot_parts.c.sync_id == sync_id)
        )
    }
    for pair in _written(connection, sync_id):
        match state:
            case SnapshotState.READY:
                dead = pair not in published
            case SnapshotState.BUILDING:
                dead = pair[1] < part_attempts_from(attempt)
            case SnapshotState.REQUESTED:
                dead = pair[1] < part_attempts_from(attempt + 1)
            case _:
                dead = True
        if dead:
            yield pair


def _written(connection: Connection, sync_id: str) -> Iterator[tuple[int, int]]:
    entries = snapshot_entries.c
    place = tuple_(entries.part, entries.attempt)
    following = (
        select(entries.part, entries.attempt)
        .where(entries.sync_id == sync_id)
        .order_by(entries.part, entries.attempt)
        .limit(1)
    )
    found = connection.execute(following).first()
    while found is not None:
        pair = (found.part, found.attempt)
        yield pair
        found = connection.execute(following.where(place > pair)).first()


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
    kept = exists().where(snapshots.c.sync_id == snapshot_parts.c.sync_id, snapshots.c.state == SnapshotState.READY)
    connection.execute(delete(snapshot_parts).where(not_(kept)))
