"""The subscriber's side of a receive queue: where it stands, and taking entries off the queue."""

from typing import Final, NamedTuple

from sqlalchemy import (
    Connection,
    Engine,
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
from queues.leases import Lease
from queues.receive.newest import newest
from queues.tables import consumers, parked_entries, receive_marks, receive_queues
from queues.tables import receive_entries as log
from queues.transactions import reading, writing_briefly

#: Phases of a consumer.
IN_LOG: Final = "log"
IN_SNAPSHOT: Final = "snapshot"
#: The `back_seq` of a subscriber that has nothing to undo.
NOWHERE: Final = -1


class Consumed(NamedTuple):
    """The subscriber's own marks: what it has applied durably."""

    phase: str
    sync_id: str
    row_no: int
    branch: str
    seq: int


class Received(NamedTuple):
    """The sink's marks, as far as the subscriber needs them: what there is to apply."""

    branch: str
    boundary_seq: int
    sync_id: str
    sync_rows: int
    base_seq: int


class Standing(NamedTuple):
    """Both sides of one queue at one moment, and the parked transaction that is to be tried again.

    `back_seq`: the source has lost what came after it, some of which is applied and must be undone; `NOWHERE` if none.
    """

    consumed: Consumed
    received: Received
    retry_id: int | None
    back_seq: int = NOWHERE


#: How far a subscriber has come; what it still has to undo does not count.
APPLIED_SEQ: Final = case((consumers.c.back_seq > NOWHERE, consumers.c.back_seq), else_=consumers.c.seq)


def enroll(engine: Engine, queue_id: int, *, undoes: bool = False) -> None:
    """Make the subscriber's marks of a queue if it has none yet, and keep whether it can undo what it has applied."""
    with reading(engine) as connection:
        if _is_enrolled(connection, queue_id, undoes):
            return
    with writing_briefly(engine) as connection:
        # One after the other: their key would keep two apart only until the first is updated.
        connection.execute(
            select(receive_queues.c.queue_id).where(receive_queues.c.queue_id == queue_id).with_for_update()
        )
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
    "back_seq": NOWHERE,
}


def _is_enrolled(connection: Connection, queue_id: int, undoes: bool) -> bool:
    kept = connection.execute(select(consumers.c.undoes).where(consumers.c.queue_id == queue_id)).scalar()
    return kept is not None and bool(kept) == undoes


def standing(connection: Connection, queue_id: int) -> Standing | None:
    """Read both sides' marks in one statement; None while one of them has none."""
    row = connection.execute(STANDING, {"queue": queue_id}).first()
    if row is None:
        return None
    return Standing(Consumed(*row[:5]), Received(*row[5:10]), row.retry_id, row.back_seq)


STANDING = (
    select(
        *(consumers.c[name] for name in Consumed._fields),
        *(receive_marks.c[name] for name in Received._fields),
        select(func.min(parked_entries.c.id))
        .where(parked_entries.c.queue_id == bindparam("queue"), parked_entries.c.tries == 0)
        .scalar_subquery()
        .label("retry_id"),
        consumers.c.back_seq,
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
    back_seq: int = NOWHERE,
) -> bool:
    """Compare-and-set the subscriber's marks from *seen* to *to*; False when they are no longer as seen.

    Also False under an older *lease* than the one that wrote last, and when something else has to be undone than what
    came after *back_seq*, unless another snapshot begins. Until the end of the transaction nobody else can move them.
    """
    moved = connection.execute(
        _MOVE,
        {
            "queue": queue_id,
            "lease": lease.generation,
            "applied": applied,
            "seen_back": back_seq,
            "moved_us": now_us(),
            **{f"seen_{name}": value for name, value in seen._asdict().items()},
            **{f"to_{name}": value for name, value in to._asdict().items()},
        },
    )
    return moved.rowcount == 1


_MOVE = (
    update(consumers)
    .where(
        consumers.c.queue_id == bindparam("queue"),
        newest(consumers, bindparam("queue")),
        consumers.c.generation <= bindparam("lease"),
        *(consumers.c[name] == bindparam(f"seen_{name}") for name in Consumed._fields),
        or_(consumers.c.back_seq == bindparam("seen_back"), consumers.c.sync_id != bindparam("to_sync_id")),
    )
    .values(
        back_seq=NOWHERE,
        version=consumers.c.version + 1,
        generation=bindparam("lease"),
        applied_total=consumers.c.applied_total + bindparam("applied"),
        updated_us=bindparam("moved_us"),
        **{name: bindparam(f"to_{name}") for name in Consumed._fields},
    )
)


def still_received(connection: Connection, queue_id: int, seen: Consumed, to: Consumed) -> bool:
    """Tell whether the log still reaches to *to*: a source that lost its newest entries has the sink go back.

    Ask after `move`: from then on the sink does not go back before the end of the transaction.
    """
    values = {"queue": queue_id, "sync_id": seen.sync_id, "branch": to.branch, "end": to.seq}
    return connection.execute(_REACHES, values).first() is not None


_UNCHANGED = select(receive_marks.c.queue_id).where(
    receive_marks.c.queue_id == bindparam("queue"),
    newest(receive_marks, bindparam("queue")),
    receive_marks.c.sync_id == bindparam("sync_id"),
    receive_marks.c.branch == bindparam("branch"),
)
_REACHES = _UNCHANGED.where(receive_marks.c.boundary_seq >= bindparam("end"))
_REMOVE = delete(log).where(
    log.c.queue_id == bindparam("queue"),
    log.c.seq > bindparam("after"),
    log.c.seq <= bindparam("end"),
    _UNCHANGED.exists(),
)


def remove_entries(connection: Connection, queue_id: int, seen: Consumed, branch: str, end: int) -> int:
    """Delete the log entries after *seen* up to *end* and return their number.

    None are deleted when the sink has completed another snapshot, or changed the branch, in the meantime: the rows
    with these numbers are other ones then. (One statement, so that marks and rows are of the same moment.)
    """
    values = {"queue": queue_id, "sync_id": seen.sync_id, "branch": branch, "after": seen.seq, "end": end}
    return connection.execute(_REMOVE, values).rowcount
