"""Build snapshots: one attempt at a time owns a request, and publishes all of its rows or none.

Every change of a request is a compare-and-set on (state, owner, attempt). An attempt that was replaced while it was
paused therefore changes nothing. The rows of that attempt stay invisible, because no part refers to them.
"""

from collections.abc import Iterable
from dataclasses import replace

from sqlalchemy import ColumnElement, Connection, Update, func, insert, not_, select, update

from queues.checksum import combine
from queues.database import dialects
from queues.database.tables.snapshots import snapshot_blocks, snapshot_parts, snapshots
from queues.errors import SnapshotCancelledError, SnapshotFailedError
from queues.names import ClientName, SiteId
from queues.positions import Position
from queues.send_snapshot.states import (
    Attempt,
    Part,
    build_number,
    stored_under,
    superseded,
)
from queues.states import SnapshotState
from queues.words import cleaned


def is_live(connection: Connection, attempt: Attempt) -> bool:
    """Return whether *attempt* may continue: it was not cancelled, superseded, handed back or taken over.

    An attempt for several sites continues while at least one of them waits for it.
    """
    return connection.execute(select(snapshots.c.sync_id).where(*_live(attempt)).limit(1)).first() is not None


def under_way(connection: Connection, sync_id: str) -> Attempt | None:
    """Return the attempt that is building a snapshot now, or None."""
    building = snapshots.c.sync_id == sync_id, snapshots.c.state == SnapshotState.BUILDING
    build = connection.execute(select(snapshots.c.build).where(*building)).scalar()
    return None if build is None else by_build(connection, build)


def by_build(connection: Connection, build: str) -> Attempt | None:
    """Return the attempt of this build; None after its end."""
    building = snapshots.c.build == build, snapshots.c.state == SnapshotState.BUILDING
    served = select(snapshots).where(*building).order_by(snapshots.c.requested_us, snapshots.c.sync_id)
    rows = connection.execute(served).all()
    if not rows:
        return None
    destination, *others = [SiteId(row.destination) for row in rows]
    first = rows[0]
    client, number = ClientName(first.client), build_number(build)
    return Attempt(stored_under(build), client, destination, first.reason, first.owner, number, tuple(others))


def keep_one(connection: Connection, attempt: Attempt) -> Attempt:
    """Return *attempt* for one site only, and hand the requests of the other sites back as not begun.

    Raises `SnapshotCancelledError` if no site waits for the attempt any more.
    """
    wanted = select(snapshots).where(*_live(attempt)).order_by(snapshots.c.requested_us, snapshots.c.sync_id).limit(1)
    kept = connection.execute(wanted).first()
    if kept is None:
        raise cancelled(attempt)
    now = dialects.of(connection).now_us(connection)
    others = update(snapshots).where(*_owned(attempt), snapshots.c.sync_id != kept.sync_id)
    given_back = {"state": SnapshotState.REQUESTED, "owner": "", "build": "", "attempt": snapshots.c.attempt - 1}
    connection.execute(others.values(**given_back, updated_us=now))
    return replace(attempt, destination=SiteId(kept.destination), reason=kept.reason, others=())


def check_live(connection: Connection, attempt: Attempt) -> None:
    """Raise `SnapshotCancelledError` unless `is_live`."""
    if not is_live(connection, attempt):
        raise cancelled(attempt)


def cancelled(attempt: Attempt) -> SnapshotCancelledError:
    """Return the error that ends an *attempt* that no longer owns its snapshot."""
    return SnapshotCancelledError(
        f"snapshot {attempt.sync_id} for {attempt.destination} was cancelled, replaced by a newer request, or taken "
        "over by another transmitter: stop building it"
    )


def pin(connection: Connection, attempt: Attempt, base: Position) -> None:
    """Store the base of a running attempt, so that the log after that base is kept."""
    now = dialects.of(connection).now_us(connection)
    _change(connection, attempt, branch=base.branch, base_seq=base.seq, cut=base.cut, pinned_us=now)


def expect(connection: Connection, attempt: Attempt, rows: int) -> None:
    """Store the expected number of rows; raise `SnapshotCancelledError` if *attempt* is not live."""
    _change(connection, attempt, expected_rows=rows)


def report(connection: Connection, attempt: Attempt, *, rows: int, payload_bytes: int, progress: str) -> None:
    """Store the progress of *attempt*; raise `SnapshotCancelledError` if it is not live."""
    _change(connection, attempt, row_count=rows, byte_count=payload_bytes, progress=cleaned(progress))


def publish(connection: Connection, attempt: Attempt, *, base: Position, parts: Iterable[Part]) -> None:
    """Publish the rows of *parts* as the snapshot and make it ready, both with the caller's commit.

    Raises `SnapshotCancelledError` if *attempt* is not live. Raises `SnapshotFailedError` if a part lacks rows. After
    either, the caller rolls back.
    """
    # Data that a crash could undo must not leave the site, so this commit makes all earlier ones durable too.
    dialect = dialects.of(connection)
    dialect.run_all(connection, dialect.durable_commit)
    kept = [part for part in parts if part.rows]
    _change(
        connection,
        attempt,
        state=SnapshotState.READY,
        branch=base.branch,
        base_seq=base.seq,
        cut=base.cut,
        row_count=sum(part.rows for part in kept),
        byte_count=sum(part.bytes for part in kept),
        checksum=combine(*(part.checksum for part in kept)),
        error="",
    )
    if not kept:
        return
    connection.execute(
        insert(snapshot_parts),
        [
            {
                "sync_id": attempt.sync_id,
                "part": part.part,
                "attempt": part.attempt,
                "row_count": part.rows,
                "byte_count": part.bytes,
                "checksum": part.checksum,
            }
            for part in kept
        ],
    )
    _check_whole(connection, attempt.sync_id)


def _check_whole(connection: Connection, sync_id: str) -> None:
    # Rows are numbered without gaps within a part, so its last number is its count: one look-up for each part.
    last = (
        select(func.max(snapshot_blocks.c.last_ord))
        .where(
            snapshot_blocks.c.sync_id == snapshot_parts.c.sync_id,
            snapshot_blocks.c.part == snapshot_parts.c.part,
            snapshot_blocks.c.attempt == snapshot_parts.c.attempt,
        )
        .scalar_subquery()
    )
    torn = connection.execute(
        select(snapshot_parts.c.part)
        .where(snapshot_parts.c.sync_id == sync_id, snapshot_parts.c.row_count != func.coalesce(last, 0))
        .limit(1)
    ).scalar()
    if torn is not None:
        raise SnapshotFailedError(
            f"part {torn} of snapshot {sync_id} does not have the rows it claims: do all its writers use this database?"
        )


def is_published(connection: Connection, attempt: Attempt) -> bool:
    """Return whether this attempt has made the snapshot ready, and the snapshot was not cancelled since."""
    published = (
        snapshots.c.build == attempt.build,
        snapshots.c.state.in_((SnapshotState.READY, SnapshotState.APPLIED)),
    )
    return connection.execute(select(snapshots.c.sync_id).where(*published).limit(1)).first() is not None


def fail(connection: Connection, attempt: Attempt, error: str, *, retry_after: float) -> bool:
    """Hand the request back for a retry after *retry_after* seconds; return False if *attempt* did not own it."""
    now = dialects.of(connection).now_us(connection)
    given_back = connection.execute(
        update(snapshots)
        .where(*_owned(attempt))
        .values(
            state=SnapshotState.REQUESTED,
            owner="",
            build="",
            error=cleaned(error),
            retry_us=now + int(retry_after * 1_000_000),
            updated_us=now,
        )
    )
    return bool(given_back.rowcount)


def _change(connection: Connection, attempt: Attempt, **values: object) -> None:
    now = dialects.of(connection).now_us(connection)
    change: Update = update(snapshots).where(*_live(attempt)).values(updated_us=now, **values)
    if not connection.execute(change).rowcount:
        raise cancelled(attempt)


def _owned(attempt: Attempt) -> tuple[ColumnElement[bool], ...]:
    return (
        snapshots.c.build == attempt.build,
        snapshots.c.state == SnapshotState.BUILDING,
        snapshots.c.owner == attempt.owner,
    )


def _live(attempt: Attempt) -> tuple[ColumnElement[bool], ...]:
    return *_owned(attempt), not_(superseded())
