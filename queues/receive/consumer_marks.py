"""The subscriber's marks of a receive queue, and the removal of applied entries."""

from typing import Final, NamedTuple

from sqlalchemy import (
    Connection,
    Engine,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from queues.clock import now_us
from queues.database import dialects
from queues.database.dialect import Statement
from queues.database.leases import Lease
from queues.database.tables.consumers import consumers, parked_entries
from queues.database.tables.receive import receive_blocks as log
from queues.database.tables.receive import receive_marks, receive_queues
from queues.database.transactions import reading, writing_briefly
from queues.names import ClientName
from queues.receive import log_blocks
from queues.receive.marks import NOT_ENDED
from queues.receive.newest import newest
from queues.receive.parked_rows import REQUESTED

#: The phases of a subscriber.
IN_LOG: Final = "log"
IN_SNAPSHOT: Final = "snapshot"
#: The `back_seq` of a subscriber that has nothing to undo.
NOWHERE: Final = -1


#: The marks of a queue with shards have a generation from here on. So a subscriber without shards writes none of them.
SHARDED: Final = 2**62


def subscriber_lease(client: ClientName, shard: int | None = None) -> str:
    """Return the name of the lease that the working subscriber of *client* holds, or that of one shard."""
    return f"subscriber/{client}" if shard is None else f"subscriber/{client}/{shard}"


class Consumed(NamedTuple):
    """The subscriber's marks: the entries that it has applied durably, and the last end of the stream it was told."""

    phase: str
    sync_id: str
    row_no: int
    branch: str
    seq: int
    ended_seq: int = NOT_ENDED


class Received(NamedTuple):
    """The sink's marks that a subscriber reads: the entries that can be applied."""

    branch: str
    boundary_seq: int
    sync_id: str
    sync_rows: int
    base_seq: int
    ended_seq: int = NOT_ENDED


class QueueState(NamedTuple):
    """Both sides' marks of one queue at one moment, and the parked transaction that is to be retried.

    `back_seq`: the source has lost all entries after it. Some of these are applied and must be undone.
    `NOWHERE` if there is nothing to undo. `version` changes with every write of the subscriber's marks and with every
    rollback of the sink.
    """

    consumed: Consumed
    received: Received
    retry_id: int | None
    back_seq: int = NOWHERE
    version: int = 0


#: The progress of a subscriber; entries that it must still undo do not count. Of several shards, the lowest one counts.
APPLIED_SEQ: Final = case(
    (and_(consumers.c.back_seq > NOWHERE, consumers.c.back_seq < consumers.c.seq), consumers.c.back_seq),
    else_=consumers.c.seq,
)


def enroll(engine: Engine, queue_id: int, *, undoes: bool = False) -> None:
    """Create the subscriber's marks of a queue if they are missing; store whether the subscriber can undo.

    A queue that does not exist any more gets none.
    """
    with reading(engine) as connection:
        if _is_enrolled(connection, queue_id, undoes):
            return
    with writing_briefly(engine) as connection:
        # The lock makes two subscribers take turns: after an update, a row's key no longer conflicts with a new row's.
        own = select(receive_queues.c.queue_id).where(receive_queues.c.queue_id == queue_id).with_for_update()
        if connection.execute(own).first() is None:
            return
        kept = connection.execute(update(consumers).where(consumers.c.queue_id == queue_id).values(undoes=undoes))
        if not kept.rowcount:
            values = {**_ORIGIN, "undoes": undoes, "updated_us": now_us()}
            connection.execute(insert(consumers).values(queue_id=queue_id, **values))


_ORIGIN: Final = {
    "version": 0,
    "generation": 0,
    "phase": IN_LOG,
    "sync_id": "",
    "row_no": 0,
    "branch": "",
    "seq": 0,
    "applied_total": 0,
    "applied_bytes": 0,
    "back_seq": NOWHERE,
    "ended_seq": NOT_ENDED,
}


def _is_enrolled(connection: Connection, queue_id: int, undoes: bool) -> bool:
    kept = connection.execute(select(consumers.c.undoes).where(consumers.c.queue_id == queue_id)).scalar()
    return kept is not None and bool(kept) == undoes


def standing(connection: Connection, queue_id: int) -> QueueState | None:
    """Read both sides' marks in one statement; None until both exist."""
    row = connection.execute(STANDING, {"queue": queue_id}).first()
    if row is None:
        return None
    return QueueState(Consumed(*row[:_OWN]), Received(*row[_OWN:_BOTH]), row.retry_id, row.back_seq, row.version)


_OWN: Final = len(Consumed._fields)
_BOTH: Final = _OWN + len(Received._fields)


STANDING = (
    select(
        *(consumers.c[name] for name in Consumed._fields),
        *(receive_marks.c[name] for name in Received._fields),
        select(func.min(parked_entries.c.id))
        .where(parked_entries.c.queue_id == bindparam("queue"), parked_entries.c.tries == REQUESTED)
        .scalar_subquery()
        .label("retry_id"),
        consumers.c.back_seq,
        consumers.c.version,
    )
    .join_from(consumers, receive_marks, receive_marks.c.queue_id == consumers.c.queue_id)
    .where(
        consumers.c.queue_id == bindparam("queue"),
        newest(consumers, bindparam("queue")),
        newest(receive_marks, bindparam("queue")),
    )
)


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
    fence: int | None = None,
) -> bool:
    """Compare-and-set the subscriber's marks from *seen* to *to*; return False if they differ from *seen*.

    *applied* entries leave the queue; *applied_bytes* is the size of the blocks that have their last entry there.

    Also return False after a write under a newer lease than *lease*; *fence* replaces its generation (see `SHARDED`).
    The same holds if the stored `back_seq` differs from *back_seq*, unless *to* begins another snapshot. After True,
    the marks stay locked until the end of the transaction.
    """
    moving = _moving(queue_id, lease, seen, to, applied, applied_bytes, back_seq, fence)
    return connection.execute(*moving).first() is not None


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
    """`move` the marks and delete the *blocks* that end there, in one message; return False unless both succeed.

    After False the caller rolls back. *freed* is the size of the blocks.
    """
    moving = _moving(queue_id, lease, seen, to, applied, freed, back_seq, fence)
    removing = _removing(queue_id, seen, to.branch, to.seq)
    # A batch that ends inside a block removes nothing: the marks tell which entries are left.
    statements = [moving, removing] if blocks else [moving]
    moved, *removed = dialects.of(connection).run_all(connection, statements)
    return len(moved) == 1 and sum(map(len, removed)) == blocks


def _moving(
    queue_id: int,
    lease: Lease,
    seen: Consumed,
    to: Consumed,
    applied: int,
    applied_bytes: int,
    back_seq: int,
    fence: int | None,
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
_REMOVE = (
    delete(log)
    .where(
        log.c.queue_id == bindparam("queue"),
        log.c.end_seq > bindparam("after"),
        log.c.end_seq <= bindparam("end"),
        _UNCHANGED.exists(),
    )
    .returning(log.c.end_seq)
)


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
