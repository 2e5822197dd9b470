"""The positions of the shards of a receive queue; all functions work in the caller's transaction.

A shard's step writes the row of that shard only. A step for all shards raises the version of all rows. So no step can
be claimed that was read before.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, insert, select, update

from queues.clock import now_us
from queues.database.dialect import Statement
from queues.database.leases import Lease
from queues.database.left_out import left_out, require_none
from queues.database.tables.receive import receive_queues
from queues.database.tables.shards import shard_changes, shard_failures, shard_marks
from queues.errors import StoreUnavailableError
from queues.names import ClientName
from queues.receive.consumer_marks import Consumed
from queues.receive.consumer_moves import reaching
from queues.receive.delivery_claim import StepLock, claimed_by


class ShardRow(NamedTuple):
    """The stored position of one shard; see `lrq_shard_marks` for the fields."""

    shard: int
    version: int
    seq: int
    applied_total: int


class StoredChange(NamedTuple):
    """Version `version` of the client's map holds for transactions that begin after `after`."""

    version: int
    after: int


_ROWS: Final = (
    select(*(shard_marks.c[name] for name in ShardRow._fields))
    .where(shard_marks.c.queue_id == bindparam("queue"))
    .order_by(shard_marks.c.shard)
)
_CHANGES: Final = (
    select(shard_changes.c.version, shard_changes.c.after_seq)
    .where(shard_changes.c.queue_id == bindparam("queue"))
    .order_by(shard_changes.c.version)
)


def rows_of(connection: Connection, queue_id: int) -> list[ShardRow]:
    """Return the positions of all shards, in the order of their numbers; empty for a queue without shards."""
    return [ShardRow(*row) for row in connection.execute(_ROWS, {"queue": queue_id})]


def changes_of(connection: Connection, queue_id: int) -> list[StoredChange]:
    """Return the maps in force, oldest first."""
    return [StoredChange(*row) for row in connection.execute(_CHANGES, {"queue": queue_id})]


def most_shards(connection: Connection, client: ClientName, *, beside: int | None = None) -> int:
    """Return the highest number of shards in any queue of *client*, *beside* that one; 0 if none has shards."""
    highest = connection.execute(select(func.max(shard_marks.c.shard)).where(*_of(client, beside))).scalar()
    return 0 if highest is None else int(highest) + 1


def hold_others(connection: Connection, client: ClientName, queue_id: int) -> bool:
    """Keep a shard of another queue of *client* until the transaction ends; return False if there is none.

    Steps of that shard go on meanwhile.
    """
    kept = select(shard_marks.c.shard).where(*_of(client, queue_id)).limit(1)
    return connection.execute(kept.with_for_update(read=True, key_share=True)).first() is not None


def _of(client: ClientName, beside: int | None) -> list[ColumnElement[bool]]:
    own = select(receive_queues.c.queue_id).where(receive_queues.c.client == client)
    others = [] if beside is None else [shard_marks.c.queue_id != beside]
    return [shard_marks.c.queue_id.in_(own), *others]


# --- the step of one shard --------------------------------------------------------------------------------------


def claim(
    connection: Connection,
    queue_id: int,
    row: ShardRow,
    lease: Lease,
    seen: Consumed,
    to: Consumed,
    *,
    claimed_us: int,
    then: Sequence[Statement] = (),
) -> bool:
    """Lock the position *row* of a shard; return False if it has changed, or if *to* is beyond the log.

    The time *claimed_us* is stored with the position. *then* is executed in the same message. Raises the errors of
    `delivery_claim.claimed_by`.
    """
    values = {**_as_seen(queue_id, row, lease), "claimed_us": claimed_us}
    return claimed_by(connection, lease, _STEP_LOCK, values, [reaching(queue_id, seen, to)], then)


def move(connection: Connection, queue_id: int, row: ShardRow, lease: Lease, end: int, *, applied: int) -> None:
    """Move a shard from *row* to number *end*, with *applied* entries, after `claim` in the same transaction.

    Raises `StoreUnavailableError` if a trigger of others leaves out the move.
    """
    values = {**_as_seen(queue_id, row, lease), "to_seq": end, "applied": applied, "moved_us": now_us()}
    if connection.execute(_MOVE, values).rowcount != 1:
        raise StoreUnavailableError(left_out(shard_marks.name))


def lift(connection: Connection, queue_id: int, shard: int, end: int) -> None:
    """Move all shards but *shard* to *end*, because they have nothing to deliver up to there."""
    connection.execute(_LIFT, {"of_queue": queue_id, "of_shard": shard, "to_seq": end})


def was_claimed(connection: Connection, queue_id: int, shard: int, claimed_us: int) -> bool:
    """Return whether the claim of that time has been committed, without a later write."""
    own = (shard_marks.c.queue_id == queue_id, shard_marks.c.shard == shard, shard_marks.c.updated_us == claimed_us)
    return connection.execute(select(shard_marks.c.shard).where(*own)).first() is not None


def _as_seen(queue_id: int, row: ShardRow, lease: Lease) -> dict[str, object]:
    return {"of_queue": queue_id, "of_shard": row.shard, "seen": row.version, "lease": lease.generation}


_SEEN: Final = (
    shard_marks.c.queue_id == bindparam("of_queue"),
    shard_marks.c.shard == bindparam("of_shard"),
    shard_marks.c.version == bindparam("seen"),
    shard_marks.c.generation <= bindparam("lease"),
)
_STEP_LOCK: Final = StepLock(shard_marks, *_SEEN)
_MOVE: Final = (
    update(shard_marks)
    .where(*_SEEN)
    .values(
        version=shard_marks.c.version + 1,
        generation=bindparam("lease"),
        seq=bindparam("to_seq"),
        applied_total=shard_marks.c.applied_total + bindparam("applied"),
        updated_us=bindparam("moved_us"),
    )
)
_LIFT: Final = (
    update(shard_marks)
    .where(
        shard_marks.c.queue_id == bindparam("of_queue"),
        shard_marks.c.shard != bindparam("of_shard"),
        shard_marks.c.seq < bindparam("to_seq"),
    )
    .values(version=shard_marks.c.version + 1, seq=bindparam("to_seq"))
)


# --- all shards -------------------------------------------------------------------------------------------------


def locking(queue_id: int) -> Statement:
    """Return the statement that locks all positions until the transaction ends; running steps end before."""
    return _LOCK, {"queue": queue_id}


_LOCK: Final = _ROWS.with_for_update()


def locked_rows(connection: Connection, queue_id: int) -> list[ShardRow]:
    """Lock the positions of all shards until the transaction ends, and return them."""
    return [ShardRow(*row) for row in connection.execute(*locking(queue_id))]


def add_change(
    connection: Connection, queue_id: int, change: StoredChange, shards: int, rows: Sequence[ShardRow]
) -> None:
    """Let a new map hold after a change, with positions for *shards* shards; *rows* are all locked positions."""
    connection.execute(insert(shard_changes).values(queue_id=queue_id, version=change.version, after_seq=change.after))
    own = shard_marks.c.queue_id == queue_id
    if rows:
        connection.execute(update(shard_marks).where(own).values(version=shard_marks.c.version + 1))
    there = {row.shard for row in rows}
    new = [shard for shard in range(shards) if shard not in there]
    moment = now_us()
    # The time is the first version. So no step can be claimed that was read before an earlier end of the shard.
    common = {"queue_id": queue_id, "version": moment, "generation": 0, "seq": change.after, "applied_total": 0}
    if new:
        connection.execute(insert(shard_marks), [{**common, "shard": shard, "updated_us": moment} for shard in new])


def level(connection: Connection, queue_id: int, seq: int) -> None:
    """Let all shards stand at *seq*, from which only the newest map of the queue holds."""
    own = shard_marks.c.queue_id == queue_id
    connection.execute(update(shard_marks).where(own).values(version=shard_marks.c.version + 1, seq=seq))
    require_none(connection, shard_marks, own, shard_marks.c.seq != seq)
    of_queue = shard_changes.c.queue_id == queue_id
    newest = connection.execute(select(func.max(shard_changes.c.version)).where(of_queue)).scalar()
    connection.execute(delete(shard_changes).where(of_queue, shard_changes.c.version < newest))
    connection.execute(update(shard_changes).where(of_queue).values(after_seq=seq))


def forget_changes(connection: Connection, queue_id: int, changes: Sequence[StoredChange], lowest: int) -> None:
    """Delete the changes before the last one that all shards have passed; *lowest* is the lowest position."""
    passed = [change.version for change in changes if change.after <= lowest]
    if len(passed) > 1:
        old = shard_changes.c.queue_id == queue_id, shard_changes.c.version < passed[-1]
        connection.execute(delete(shard_changes).where(*old))


def remove(connection: Connection, queue_id: int, rows: Sequence[ShardRow]) -> None:
    """Delete the positions of shards that have retired, unless they have changed since *rows*."""
    for row in rows:
        key = {"queue_id": queue_id, "shard": row.shard}
        own = [shard_marks.c[name] == value for name, value in {**key, "version": row.version}.items()]
        connection.execute(delete(shard_marks).where(*own))
        connection.execute(
            delete(shard_failures).where(*(shard_failures.c[name] == each for name, each in key.items()))
        )


def forget_queue(connection: Connection, queue_id: int) -> None:
    """Delete all positions and changes of a queue, whose subscriber goes on without shards."""
    for table in (shard_marks, shard_changes, shard_failures):
        connection.execute(delete(table).where(table.c.queue_id == queue_id))


def positions(rows: Sequence[ShardRow]) -> Mapping[int, int]:
    """Return the positions by the numbers of the shards."""
    return {row.shard: row.seq for row in rows}
