"""The changes of a subscriber's marks by compare-and-set, and the removal of the entries that are applied with them."""

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, delete, or_, select, update

from queues.clock import now_us
from queues.database import dialects
from queues.database.dialect import Statement
from queues.database.leases import Lease
from queues.database.left_out import left_out
from queues.database.tables.consumers import consumers
from queues.database.tables.receive import receive_blocks as log
from queues.database.tables.receive import receive_marks
from queues.errors import StoreUnavailableError
from queues.receive import log_blocks
from queues.receive.consumer_marks import NOWHERE, Consumed
from queues.receive.newest import newest


def move(
    connection: Connection,
    queue_id: int,
    lease: Lease,
    seen: Consumed,
    to: Consumed,
    *,
    applied: int = 0,
    applied_bytes: int = 0,
    back_seq: int = NOWHERE,
) -> bool:
    """Compare-and-set the subscriber's marks from *seen* to *to*; return False if they differ from *seen*.

    *applied* entries leave the queue; *applied_bytes* is the size of the blocks that have their last entry there.

    Also return False after a write under a newer lease than *lease*. The same holds if the stored `back_seq` differs
    from *back_seq*, unless *to* begins another snapshot. After True, the marks stay locked until the end of the
    transaction.
    """
    moving = _moving(queue_id, lease, seen, to, applied, applied_bytes, back_seq)
    return connection.execute(*moving).first() is not None


def move_claimed(
    connection: Connection,
    queue_id: int,
    lease: Lease,
    seen: Consumed,
    to: Consumed,
    *,
    applied: int,
    back_seq: int,
    fence: int | None = None,
) -> None:
    """`move` the marks after `delivery_claim.claim` in the same transaction.

    With shards, *fence* replaces the generation of *lease*. Nothing else can change claimed marks, so
    `StoreUnavailableError` tells that a trigger of others leaves out the move.
    """
    _require_move(connection.execute(*_moving(queue_id, lease, seen, to, applied, 0, back_seq, fence)).all())


def _require_move(moved: Sequence[object]) -> None:
    if not moved:
        raise StoreUnavailableError(left_out(consumers.name))


def apply_blocks(
    connection: Connection,
    queue_id: int,
    lease: Lease,
    seen: Consumed,
    to: Consumed,
    *,
    applied: int,
    blocks: int,
    freed: int,
    back_seq: int,
    fence: int | None = None,
) -> bool:
    """Move the claimed marks, and delete the *blocks* that end there, in one message.

    Return False unless all of the blocks were there; the caller rolls back then. *freed* is the size of the blocks.
    For the other parameters see `move_claimed`. Raises `StoreUnavailableError` if a trigger of others leaves out the
    move or the deletion.
    """
    moving = _moving(queue_id, lease, seen, to, applied, freed, back_seq, fence)
    removing = _removing(queue_id, seen, to.branch, to.seq)
    # A batch that ends inside a block removes nothing: the marks tell which entries are left.
    statements = [moving, removing] if blocks else [moving]
    moved, *removed = dialects.of(connection).run_all(connection, statements)
    _require_move(moved)
    are_gone = sum(map(len, removed)) == blocks
    if not are_gone:
        # Otherwise the subscriber would read the same step again and again, without a word.
        require_removal(connection, queue_id, seen, to.branch, to.seq)
    return are_gone


def require_removal(connection: Connection, queue_id: int, seen: Consumed, branch: str, end: int) -> None:
    """Raise `StoreUnavailableError` if a block is still there that `remove_blocks` has just deleted."""
    if connection.execute(_LEFT, _removing(queue_id, seen, branch, end)[1]).first() is not None:
        raise StoreUnavailableError(left_out(log.name))


def _moving(
    queue_id: int,
    lease: Lease,
    seen: Consumed,
    to: Consumed,
    applied: int,
    applied_bytes: int,
    back_seq: int,
    fence: int | None = None,
) -> Statement:
    return _MOVE, {
        **as_seen(queue_id, lease.generation if fence is None else fence, seen, to, back_seq),
        "applied": applied,
        "applied_size": applied_bytes,
        "moved_us": now_us(),
        **{f"to_{name}": value for name, value in to._asdict().items()},
    }


def as_seen(queue_id: int, generation: int, seen: Consumed, to: Consumed, back_seq: int) -> dict[str, object]:
    """Return the values of `AS_SEEN` for an owner of that *generation*."""
    marks = {f"seen_{name}": value for name, value in seen._asdict().items() if name != "ended_seq"}
    others = {"queue": queue_id, "lease": generation, "seen_back": back_seq, "to_sync_id": to.sync_id}
    return {**marks, **others}


#: The subscriber's marks equal those it has seen, and no later lease has written them.
AS_SEEN = (
    consumers.c.queue_id == bindparam("queue"),
    newest(consumers, bindparam("queue")),
    consumers.c.generation <= bindparam("lease"),
    # Another program, as Spark's, moves the marks without a word about ends.
    *(consumers.c[name] == bindparam(f"seen_{name}") for name in Consumed._fields if name != "ended_seq"),
    or_(consumers.c.back_seq == bindparam("seen_back"), consumers.c.sync_id != bindparam("to_sync_id")),
)
_MOVE = (
    update(consumers)
    .where(*AS_SEEN)
    .values(
        back_seq=NOWHERE,
        version=consumers.c.version + 1,
        generation=bindparam("lease"),
        applied_total=consumers.c.applied_total + bindparam("applied"),
        applied_bytes=consumers.c.applied_bytes + bindparam("applied_size"),
        updated_us=bindparam("moved_us"),
        **{name: bindparam(f"to_{name}") for name in Consumed._fields},
    )
    .returning(consumers.c.queue_id)
)


def still_received(connection: Connection, queue_id: int, seen: Consumed, to: Consumed) -> bool:
    """Return whether the log still reaches *to*: after a loss at the source, the sink rolls back.

    Call after `move`: from then on the sink cannot roll back before the end of the transaction.
    """
    return connection.execute(*reaching(queue_id, seen, to)).first() is not None


def reaching(queue_id: int, seen: Consumed, to: Consumed) -> Statement:
    """Return the statement of `still_received`, for one message with others; a row as result means True."""
    return _REACHES, {"queue": queue_id, "sync_id": seen.sync_id, "branch": to.branch, "end": to.seq}


_UNCHANGED = select(receive_marks.c.queue_id).where(
    receive_marks.c.queue_id == bindparam("queue"),
    newest(receive_marks, bindparam("queue")),
    receive_marks.c.sync_id == bindparam("sync_id"),
    receive_marks.c.branch == bindparam("branch"),
)
_REACHES = _UNCHANGED.where(receive_marks.c.boundary_seq >= bindparam("end"))
_ENDING_THERE = (
    log.c.queue_id == bindparam("queue"),
    log.c.end_seq > bindparam("after"),
    log.c.end_seq <= bindparam("end"),
    _UNCHANGED.exists(),
)
_REMOVE = delete(log).where(*_ENDING_THERE).returning(log.c.end_seq)
_LEFT = select(log.c.end_seq).where(*_ENDING_THERE).limit(1)


def remove_blocks(connection: Connection, queue_id: int, seen: Consumed, branch: str, end: int) -> int:
    """Delete the blocks whose last entry is after *seen*, and at *end* at the latest; return their number.

    Without effect if the sink has since completed another snapshot or changed the branch: other entries then have these
    numbers. One statement reads the marks and deletes, so both see the same moment.
    """
    return len(connection.execute(*_removing(queue_id, seen, branch, end)).all())


def _removing(queue_id: int, seen: Consumed, branch: str, end: int) -> Statement:
    return _REMOVE, {"queue": queue_id, "sync_id": seen.sync_id, "branch": branch, "after": seen.seq, "end": end}


def remove_entries(connection: Connection, queue_id: int, seen: Consumed, branch: str, end: int) -> int:
    """Remove the log entries after *seen* up to *end*, as `remove_blocks` does; return the number of entries."""
    entries = sum(each.entries for each in log_blocks.held(connection, queue_id, seen.seq, end))
    remove_blocks(connection, queue_id, seen, branch, end)
    return entries
