"""The marks of a receive queue that decide about a replay, and the way back of the queue.

All functions work in the caller's transaction.
"""

from typing import NamedTuple

from sqlalchemy import Connection, func, insert, select, update

from queues.database.left_out import require_stored
from queues.database.tables.consumers import consumers
from queues.database.tables.receive import receive_headers, receive_marks, receive_queues
from queues.database.tables.shards import shard_marks
from queues.names import ClientName, SiteId
from queues.positions import Header
from queues.receive import parked_rows
from queues.receive import shard_marks as shards
from queues.receive.consumer_marks import APPLIED_SEQ, IN_LOG, NOWHERE
from queues.receive.marks import NOT_ENDED


class ReplayMarks(NamedTuple):
    """The marks of a queue that decide about a replay: see `sink.protocol.replay_rules.QueueFacts`."""

    queue_id: int
    is_in_log: bool
    applied_seq: int
    floor_seq: int
    undoes: bool
    is_undoing: bool
    has_ended: bool


def read_marks(connection: Connection, client: ClientName, source: SiteId) -> ReplayMarks | None:
    """Read the marks of a queue; None if the queue does not exist."""
    joined = receive_queues.join(receive_marks, receive_marks.c.queue_id == receive_queues.c.queue_id).outerjoin(
        consumers, consumers.c.queue_id == receive_queues.c.queue_id
    )
    own = (receive_queues.c.client == client, receive_queues.c.source == source)
    columns = (
        receive_queues.c.queue_id,
        receive_marks.c.sync_id,
        receive_marks.c.base_seq,
        receive_marks.c.seq,
        receive_marks.c.boundary_seq,
        receive_marks.c.ended_seq,
        consumers.c.phase,
        consumers.c.sync_id.label("applied_sync_id"),
        APPLIED_SEQ.label("applied_seq"),
        consumers.c.back_seq,
        consumers.c.undoes,
    )
    row = connection.execute(select(*columns).select_from(joined).where(*own)).first()
    if row is None:
        return None
    is_in_log = row.phase == IN_LOG and row.applied_sync_id == row.sync_id
    is_undoing = is_in_log and row.back_seq > NOWHERE
    reached = 0 if is_undoing else _reached(connection, row.queue_id)
    return ReplayMarks(
        row.queue_id,
        is_in_log,
        max(row.applied_seq, reached) if is_in_log else 0,
        floor_seq(connection, row.queue_id, row.sync_id, row.base_seq),
        bool(row.undoes),
        is_undoing,
        row.ended_seq == row.seq == row.boundary_seq,
    )


def _reached(connection: Connection, queue_id: int) -> int:
    highest = select(func.max(shard_marks.c.seq)).where(shard_marks.c.queue_id == queue_id)
    return int(connection.execute(highest).scalar() or 0)


def floor_seq(connection: Connection, queue_id: int, sync_id: str, base_seq: int) -> int:
    """Return the first position to which a queue can go back without a snapshot: 0 if it never had one.

    The oldest header stays, because the source numbers the rows of a snapshot and some around its cut otherwise.
    """
    if not sync_id:
        return 0
    oldest = select(func.min(receive_headers.c.seq)).where(receive_headers.c.queue_id == queue_id)
    return max(base_seq, connection.execute(oldest).scalar() or 0)


def set_back(connection: Connection, queue_id: int, branch: str, seq: int) -> None:
    """Let the subscriber and all its shards stand at *seq* again, without a call of the listener.

    Call after `consumer_lock.lock_consumer`. Parked entries after *seq* are deleted, because they come again.
    """
    values = {"branch": branch, "seq": seq, "back_seq": NOWHERE, "ended_seq": NOT_ENDED}
    moved = connection.execute(update(consumers).where(consumers.c.queue_id == queue_id).values(values))
    require_stored(consumers.name, moved.rowcount, 1)
    if shards.rows_of(connection, queue_id):
        shards.level(connection, queue_id, seq)
    parked_rows.forget_after(connection, queue_id, seq)


def keep_header(connection: Connection, queue_id: int, header: Header) -> None:
    """Store the header to which a queue has gone back, unless it is there. Before the first tick there is none."""
    own = (receive_headers.c.queue_id == queue_id, receive_headers.c.seq == header.seq)
    if header.seq and connection.execute(select(receive_headers.c.seq).where(*own)).first() is None:
        connection.execute(insert(receive_headers).values(queue_id=queue_id, **header._asdict()))
