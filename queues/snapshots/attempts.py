"""Building snapshots: one attempt at a time owns a request, and publishes all of it or nothing.

Everything an attempt does to its request is a compare-and-set on (state, owner, attempt): whoever was paused, and
taken over meanwhile, changes nothing any more. Its rows were never visible, because no part names them.
"""

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Update,
    and_,
    func,
    insert,
    not_,
    or_,
    select,
    update,
)

from queues import dialects
from queues.checksum import combine
from queues.errors import SnapshotCancelledError, SnapshotFailedError
from queues.names import ClientName, SiteId
from queues.positions import Position
from queues.snapshots.states import EVERY_SITE, MAX_WORDS, Attempt, Part, SnapshotState, cancel_superseded, superseded
from queues.tables import snapshot_entries, snapshot_parts, snapshots


def due(connection: Connection, client: ClientName, *, running: Collection[str] = ()) -> bool:
    """Tell whether `claim` would find work."""
    now = dialects.of(connection).now_us(connection)
    return (
        connection.execute(select(snapshots.c.sync_id).where(*_due(client, now, running)).limit(1)).first() is not None
    )


def claim(
    connection: Connection, client: ClientName, owner: str, *, limit: int, running: Collection[str] = ()
) -> list[Attempt]:
    """Begin an attempt of up to *limit* requests that are due, oldest first.

    Due is what is requested and has waited out its backoff, and what is being built by nobody: the caller holds
    the client's lease and itself builds only *running*, so that every other builder is dead or has been deposed.
    """
    cancel_superseded(connection, client)
    now = dialects.of(connection).now_us(connection)
    found = connection.execute(
        select(snapshots)
        .where(*_due(client, now, running))
        .order_by(snapshots.c.requested_us, snapshots.c.sync_id)
        .limit(limit)
    ).all()
    claimed = []
    for row in found:
        taken = connection.execute(
            update(snapshots)
            .where(
                snapshots.c.sync_id == row.sync_id, snapshots.c.state == row.state, snapshots.c.attempt == row.attempt
            )
            .values(
                state=SnapshotState.BUILDING,
                owner=owner,
                attempt=row.attempt + 1,
                branch="",
                base_seq=0,
                cut="",
                row_count=0,
                byte_count=0,
                progress="",
                updated_us=now,
            )
        )
        if taken.rowcount:
            destination = SiteId(row.destination)
            claimed.append(Attempt(row.sync_id, client, destination, row.reason, owner, row.attempt + 1))
    return claimed


def _due(client: ClientName, now: int, running: Collection[str]) -> tuple[ColumnElement[bool], ...]:
    waiting = and_(snapshots.c.state == SnapshotState.REQUESTED, snapshots.c.retry_us <= now)
    abandoned = snapshots.c.state == SnapshotState.BUILDING
    return (
        snapshots.c.client == client,
        snapshots.c.destination != EVERY_SITE,
        snapshots.c.sync_id.not_in(running),
        or_(waiting, abandoned),
        not_(superseded()),
    )


def is_live(connection: Connection, attempt: Attempt) -> bool:
    """Tell whether *attempt* may still go on: neither cancelled, superseded, handed back nor taken over."""
    return connection.execute(select(snapshots.c.sync_id).where(*_live(attempt))).first() is not None


def under_way(connection: Connection, sync_id: str) -> Attempt | None:
    """Return the attempt that is building a snapshot just now; None when none is."""
    row = connection.execute(
        select(snapshots).where(snapshots.c.sync_id == sync_id, snapshots.c.state == SnapshotState.BUILDING)
    ).first()
    return None if row is None else _attempt_of(row)


def _attempt_of(row: Row[Any]) -> Attempt:
    client, destination = ClientName(row.client), SiteId(row.destination)
    return Attempt(row.sync_id, client, destination, row.reason, row.owner, row.attempt)


def check_live(connection: Connection, attempt: Attempt) -> None:
    """Raise `SnapshotCancelledError` unless `is_live`."""
    if not is_live(connection, attempt):
        raise cancelled(attempt)


def cancelled(attempt: Attempt) -> SnapshotCancelledError:
    """Return the error that ends *attempt* when its snapshot is no longer its own."""
    return SnapshotCancelledError(
        f"snapshot {attempt.sync_id} for {attempt.destination} was cancelled, replaced by a newer request, or taken "
        "over by another transmitter: stop building it"
    )


def pin(connection: Connection, attempt: Attempt, base: Position) -> None:
    """Note the base while building, so that the log after it can be kept."""
    _change(connection, attempt, branch=base.branch, base_seq=base.seq, cut=base.cut)


def report(connection: Connection, attempt: Attempt, *, rows: int, payload_bytes: int, progress: str) -> None:
    """Note how far *attempt* is; raise `SnapshotCancelledError` when it may not go on."""
    _change(connection, attempt, row_count=rows, byte_count=payload_bytes, progress=progress[:MAX_WORDS])


def publish(connection: Connection, attempt: Attempt, *, base: Position, parts: Iterable[Part]) -> None:
    """Make exactly the rows of *parts* the snapshot, and the snapshot ready: both with the caller's commit.

    Raises `SnapshotCancelledError` when *attempt* may not go on, `SnapshotFailedError` when a part does not have
    the rows it claims; the caller rolls back.
    """
    if connection.dialect.name == "postgresql":
        # Nothing may leave the site that a crash could still undo: this commit, and those that the cut shows.
        connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
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
    # `ord` has no gaps within a part, so its last value is the number of rows: one index look-up a part.
    last = (
        select(func.max(snapshot_entries.c.ord))
        .where(
            snapshot_entries.c.sync_id == snapshot_parts.c.sync_id,
            snapshot_entries.c.part == snapshot_parts.c.part,
            snapshot_entries.c.attempt == snapshot_parts.c.attempt,
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
    """Tell whether this very attempt has made the snapshot ready (and nothing has cancelled it since)."""
    published = (
        snapshots.c.sync_id == attempt.sync_id,
        snapshots.c.attempt == attempt.number,
        snapshots.c.state.in_((SnapshotState.READY, SnapshotState.APPLIED)),
    )
    return connection.execute(select(snapshots.c.sync_id).where(*published)).first() is not None


def fail(connection: Connection, attempt: Attempt, error: str, *, retry_after: float) -> bool:
    """Give the request back, to be tried again after *retry_after* seconds; False when it was not *attempt*'s own."""
    now = dialects.of(connection).now_us(connection)
    given_back = connection.execute(
        update(snapshots)
        .where(*_owned(attempt))
        .values(
            state=SnapshotState.REQUESTED,
            owner="",
            error=error[:MAX_WORDS],
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
        snapshots.c.sync_id == attempt.sync_id,
        snapshots.c.state == SnapshotState.BUILDING,
        snapshots.c.owner == attempt.owner,
        snapshots.c.attempt == attempt.number,
    )


def _live(attempt: Attempt) -> tuple[ColumnElement[bool], ...]:
    return *_owned(attempt), not_(superseded())
