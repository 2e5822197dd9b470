"""The sink's lock on the subscriber's marks while a queue goes back. All functions work in the caller's transaction.

A change that a trigger of others leaves out raises `SetupError`: the subscriber would not undo lost entries.
"""

from typing import NamedTuple

from sqlalchemy import Connection, select, update

from queues.database.left_out import require_none, require_stored
from queues.database.tables.consumers import consumers
from queues.database.tables.shards import shard_marks
from queues.receive.consumer_marks import APPLIED_SEQ, NOWHERE


class LockedProgress(NamedTuple):
    """The subscriber's progress: every entry up to `applied_seq` is applied, and none after `reached_seq`.

    Only shards make them differ. `undoes`: the subscriber can undo applied entries.
    """

    applied_seq: int = 0
    reached_seq: int = 0
    undoes: bool = False


def lock_consumer(connection: Connection, queue_id: int, sync_id: str) -> LockedProgress:
    """Lock the subscriber's marks until the transaction ends; steps that were read before cannot be claimed any more.

    Return the subscriber's progress after *sync_id*. The steps of shards that work now end before.
    """
    # An update, not a lock: a delivery at a stricter isolation level must conflict with this transaction.
    touched = update(consumers).where(consumers.c.queue_id == queue_id).values(version=consumers.c.version + 1)
    if not connection.execute(touched).rowcount:
        require_none(connection, consumers, consumers.c.queue_id == queue_id)
    reached = _lock_shards(connection, queue_id)
    where = (consumers.c.queue_id == queue_id, consumers.c.sync_id == sync_id)
    found = connection.execute(select(APPLIED_SEQ, consumers.c.back_seq, consumers.c.undoes).where(*where)).first()
    if found is None:
        return LockedProgress()
    applied_seq, back_seq, undoes = found
    # Entries after a pending rollback do not count as applied: the subscriber undoes them in any case.
    return LockedProgress(applied_seq, max(applied_seq, back_seq if back_seq > NOWHERE else reached), bool(undoes))


def _lock_shards(connection: Connection, queue_id: int) -> int:
    """Lock the positions of all shards of a queue, in their order; return the highest, or 0 without shards."""
    own = shard_marks.c.queue_id == queue_id
    locked = select(shard_marks.c.seq).where(own).order_by(shard_marks.c.shard).with_for_update()
    found = connection.execute(locked).scalars().all()
    if found:
        raised = update(shard_marks).where(own).values(version=shard_marks.c.version + 1)
        require_stored(shard_marks.name, connection.execute(raised).rowcount, len(found))
    return max(found, default=0)


def require_rollback(connection: Connection, queue_id: int, seq: int) -> None:
    """Have the subscriber first undo all applied entries after *seq*."""
    told = update(consumers).where(consumers.c.queue_id == queue_id).values(back_seq=seq)
    require_stored(consumers.name, connection.execute(told).rowcount, 1)
