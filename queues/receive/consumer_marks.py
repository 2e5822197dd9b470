"""The marks of a subscriber in a receive queue: their shapes, their beginning, and the two sides' marks together.

See `consumer_moves` for their changes.
"""

from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Engine, and_, bindparam, case, func, insert, select, update

from queues.clock import now_us
from queues.database.hidden_rows import SHOW_ALL, hides_rows
from queues.database.tables.consumers import consumers, parked_entries
from queues.database.tables.receive import (
    receive_blocks,
    receive_headers,
    receive_marks,
    receive_queues,
    receive_snapshot_blocks,
)
from queues.database.transactions import reading, writing_briefly
from queues.errors import ConfigurationError
from queues.names import ClientName
from queues.receive.marks import NOT_ENDED
from queues.receive.newest import newest
from queues.receive.parked_rows import REQUESTED

#: The phases of a subscriber.
IN_LOG: Final = "log"
IN_SNAPSHOT: Final = "snapshot"
#: The `back_seq` of a subscriber that has nothing to undo.
NOWHERE: Final = -1


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


def queue_state(connection: Connection, queue_id: int) -> QueueState | None:
    """Read both sides' marks in one statement; None until both exist.

    Raises `ConfigurationError` if the role may not see all entries: a subscriber would pass over the others.
    """
    row = connection.execute(QUEUE_STATE, {"queue": queue_id}).first()
    return None if row is None else state_of(tuple(row))


def state_of(row: tuple[Any, ...]) -> QueueState:
    """Return the marks in a row of `QUEUE_STATE`; raises like `queue_state`."""
    consumed, received, (*others, hides) = row[:_OWN], row[_OWN:_BOTH], row[_BOTH:]
    if hides:
        raise ConfigurationError(f"row level security hides received entries from the database role: {SHOW_ALL}")
    return QueueState(Consumed(*consumed), Received(*received), *others)


_OWN: Final = len(Consumed._fields)
_BOTH: Final = _OWN + len(Received._fields)


QUEUE_STATE = (
    select(
        *(consumers.c[name] for name in Consumed._fields),
        *(receive_marks.c[name] for name in Received._fields),
        select(func.min(parked_entries.c.id))
        .where(parked_entries.c.queue_id == bindparam("queue"), parked_entries.c.tries == REQUESTED)
        .scalar_subquery()
        .label("retry_id"),
        consumers.c.back_seq,
        consumers.c.version,
        hides_rows(receive_blocks, receive_headers, receive_snapshot_blocks).label("hides"),
    )
    .join_from(consumers, receive_marks, receive_marks.c.queue_id == consumers.c.queue_id)
    .where(
        consumers.c.queue_id == bindparam("queue"),
        newest(consumers, bindparam("queue")),
        newest(receive_marks, bindparam("queue")),
    )
)
