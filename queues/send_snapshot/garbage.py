"""Delete unreadable rows of snapshots: those of dead attempts and finished syncs, then old statuses."""

from collections.abc import Iterator

from sqlalchemy import BigInteger, ColumnElement, Connection, and_, delete, exists, literal, not_, or_, select, tuple_

from queues.database import dialects
from queues.database.tables.log import log_head
from queues.database.tables.snapshots import snapshot_blocks, snapshot_parts, snapshots
from queues.send_snapshot.states import (
    UNFINISHED,
    build_number,
    cancel_superseded,
    part_attempts_from,
    superseded,
)
from queues.send_snapshot.stored_parts import stored_ids, written_parts
from queues.states import SnapshotState

#: Seconds until a finished snapshot is deleted, unless it is the newest of its destination or of use.
KEEP_STATUSES = 7 * 86_400.0
_later = snapshots.alias("later")
# The site may still stand at the cut of its newest snapshot. A negotiation then asks whether that cut is known.
_IS_NEWEST_APPLIED = and_(
    snapshots.c.state == SnapshotState.APPLIED,
    snapshots.c.cut != "",
    not_(
        exists().where(
            _later.c.client == snapshots.c.client,
            _later.c.destination == snapshots.c.destination,
            _later.c.state == SnapshotState.APPLIED,
            tuple_(_later.c.requested_us, _later.c.sync_id) > tuple_(snapshots.c.requested_us, snapshots.c.sync_id),
        )
    ),
)
# The cut of an applied snapshot tells which entries behind its base have other numbers at the site.
_TELLS_NUMBERS = and_(
    snapshots.c.state == SnapshotState.APPLIED,
    snapshots.c.cut != "",
    snapshots.c.base_seq >= select(log_head.c.trimmed_seq).scalar_subquery(),
)
_IS_OF_USE = or_(_TELLS_NUMBERS, _IS_NEWEST_APPLIED)


def collect_garbage(connection: Connection, *, limit_rows: int = 2_000, keep: float = KEEP_STATUSES) -> int:
    """Delete up to *limit_rows* unreadable rows, and the rest of their last block; return the number.

    Each call is one bounded transaction of `queues.database.transactions.writing`; repeat the call until it returns 0.
    Finished statuses older than *keep* seconds are deleted too, but never the newest of a client and destination. The
    newest applied one stays too. The status of an applied snapshot stays while the log holds the entries behind its
    base.
    Repetition is harmless.
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


def is_due(present_us: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition that `collect_garbage` may have work; *present_us* is the time of the database."""
    is_unfinished = or_(*(snapshots.c.state == state for state in UNFINISHED))
    is_old = snapshots.c.updated_us < present_us - literal(int(KEEP_STATUSES * 1_000_000), BigInteger)
    return or_(
        exists(select(snapshot_blocks.c.sync_id)),
        exists(select(snapshot_parts.c.sync_id)),
        exists(select(snapshots.c.sync_id).where(superseded(), or_(is_unfinished, and_(is_old, not_(_IS_OF_USE))))),
    )


def _dead(connection: Connection, sync_id: str) -> Iterator[tuple[int, int]]:
    """Yield every (part, attempt) of *sync_id* that has rows and is not published now or later."""
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
    """Return whether a site waits for the rows under *sync_id*, and the number of the attempt that writes them."""
    ours = snapshots.c.build.like(f"{sync_id}.%") & snapshots.c.state.in_((SnapshotState.READY, SnapshotState.BUILDING))
    requested = (snapshots.c.sync_id == sync_id) & (snapshots.c.state == SnapshotState.REQUESTED)
    # One statement sees one moment. Between two statements the next attempt may start, and neither would see it.
    found = connection.execute(
        select(snapshots.c.state, snapshots.c.build, snapshots.c.attempt).where(or_(ours, requested)).distinct()
    ).all()
    living = [build_number(row.build) for row in found if row.state == SnapshotState.BUILDING]
    # The next attempt may start at any moment, even during this decision.
    living += [row.attempt + 1 for row in found if row.state == SnapshotState.REQUESTED]
    return any(row.state == SnapshotState.READY for row in found), max(living, default=None)


def _delete(connection: Connection, sync_id: str, part: int, attempt: int, limit: int) -> int:
    blocks = snapshot_blocks.c
    own = blocks.sync_id == sync_id, blocks.part == part, blocks.attempt == attempt
    first = select(blocks.last_ord, blocks.row_count).where(*own).order_by(blocks.last_ord).limit(limit)
    deleted = last = 0
    for block in connection.execute(first).all():
        if deleted >= limit:
            break
        deleted, last = deleted + block.row_count, block.last_ord
    connection.execute(delete(snapshot_blocks).where(*own, blocks.last_ord <= last))
    return deleted


def _forget(connection: Connection, keep: float) -> None:
    before = dialects.of(connection).now_us(connection) - int(keep * 1_000_000)
    is_old = snapshots.c.state.not_in(UNFINISHED), snapshots.c.updated_us < before
    connection.execute(delete(snapshots).where(*is_old, superseded(), not_(_IS_OF_USE)))
    kept = exists().where(
        snapshots.c.build.like(snapshot_parts.c.sync_id + ".%"), snapshots.c.state == SnapshotState.READY
    )
    connection.execute(delete(snapshot_parts).where(not_(kept)))
