"""The upkeep of a queue with shards: its beginning and end, new maps, and the marks of all together.

The subscriber's marks in `lrq_consumers` follow the lowest position. So the sink, the status and waits see the same
progress as without shards.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, bindparam, select, update

from queues.clock import now_us
from queues.database import leases
from queues.database.leases import Lease
from queues.database.tables.consumers import consumers
from queues.receive import consumer_moves, log_blocks, shard_marks
from queues.receive.consumer_marks import IN_LOG, Consumed, QueueState
from queues.receive.shard_marks import ShardRow, StoredChange
from queues.shard_maps import ShardMap

#: A queue takes no new map while this number of maps is in force.
MAX_CHANGES: Final = 8
#: The marks of a queue with shards have a generation from here on. So a subscriber without shards writes none of them.
_SHARDED: Final = 2**62


def fence_of(lease: Lease) -> int:
    """Return the generation that the owner of shard 0 writes to the marks of a queue."""
    return _SHARDED + lease.generation


class ShardsChanged(Exception):  # noqa: N818 - no error, only a reason to read again
    """The queue has changed since it was read; the transaction must be rolled back."""


def adopt(connection: Connection, queue_id: int, lease: Lease, new: ShardMap) -> None:
    """Let the map *new* hold behind all that the shards of a queue have applied.

    A queue without shards gets them. *lease* is that of shard 0. All steps that run now end before. Raises
    `ShardsChanged` if the map must wait.
    """
    _fence(connection, queue_id, lease)
    stands = _marks(connection, queue_id)
    rows, changes = shard_marks.locked_rows(connection, queue_id), shard_marks.changes_of(connection, queue_id)
    if not rows:
        shard_marks.add_change(connection, queue_id, StoredChange(new.version, stands.seq), new.shards, rows)
        return
    if not may_adopt(stands, changes, new.version):
        raise ShardsChanged
    # A shard that had retired, and has a position still, goes on from there.
    after = max(row.seq for row in rows)
    shard_marks.add_change(connection, queue_id, StoredChange(new.version, after), new.shards, rows)


def may_adopt(stands: Consumed, changes: Sequence[StoredChange], version: int) -> bool:
    """Return whether a queue with shards may take a map of that version now. Pure."""
    return stands.phase == IN_LOG and len(changes) < MAX_CHANGES and changes[-1].version < version


def settle(connection: Connection, queue_id: int, stands: QueueState, low: int) -> bool:
    """Move the subscriber's marks to *low*, the lowest position, and remove the blocks up to there.

    *stands* and *low* were read in one state. If another shard has moved the marks since, return False, and nothing is
    changed. Such a transaction can commit. A driver may drop all prepared statements of a connection at a rollback.
    Raises `ShardsChanged`, and `StoreUnavailableError` if a trigger of others leaves out the removal.
    """
    seen, received = stands.consumed, stands.received
    entries = sum(each.entries for each in log_blocks.held(connection, queue_id, seen.seq, low))
    blocks, size = log_blocks.ended(connection, queue_id, seen.seq, low)
    values = {
        "of_queue": queue_id,
        "seen": stands.version,
        "to_seq": low,
        "to_branch": received.branch,
        "applied": entries,
        "freed": size,
        "moved_us": now_us(),
    }
    if not connection.execute(_SETTLE, values).rowcount:
        return False
    if blocks and consumer_moves.remove_blocks(connection, queue_id, seen, received.branch, low) != blocks:
        consumer_moves.require_removal(connection, queue_id, seen, received.branch, low)
        raise ShardsChanged
    return True


_SETTLE: Final = (
    update(consumers)
    .where(
        consumers.c.queue_id == bindparam("of_queue"),
        consumers.c.version == bindparam("seen"),
        consumers.c.phase == IN_LOG,
    )
    .values(
        version=consumers.c.version + 1,
        seq=bindparam("to_seq"),
        branch=bindparam("to_branch"),
        applied_total=consumers.c.applied_total + bindparam("applied"),
        applied_bytes=consumers.c.applied_bytes + bindparam("freed"),
        updated_us=bindparam("moved_us"),
    )
)


def end_shards(connection: Connection, queue_id: int, lease: Lease, stands: QueueState, row: ShardRow) -> None:
    """Let the queue go on without shards; *row* is the position of shard 0, which is alone and settled.

    Raises `ShardsChanged`.
    """
    _fence(connection, queue_id, lease)
    is_settled = stands.consumed == _marks(connection, queue_id) and stands.consumed.seq == row.seq
    if not is_settled or shard_marks.locked_rows(connection, queue_id) != [row]:
        raise ShardsChanged
    shard_marks.forget_queue(connection, queue_id)
    connection.execute(update(consumers).where(consumers.c.queue_id == queue_id).values(generation=0))


def _fence(connection: Connection, queue_id: int, lease: Lease) -> None:
    """Lock the subscriber's marks, and refuse every earlier owner; raises the errors of `leases.check`."""
    own = consumers.c.queue_id == queue_id, consumers.c.generation <= fence_of(lease)
    fenced = {"generation": fence_of(lease), "version": consumers.c.version + 1}
    if not connection.execute(update(consumers).where(*own).values(fenced)).rowcount:
        raise ShardsChanged
    leases.check(connection, lease)


def _marks(connection: Connection, queue_id: int) -> Consumed:
    columns = (consumers.c[name] for name in Consumed._fields)
    return Consumed(*connection.execute(select(*columns).where(consumers.c.queue_id == queue_id)).one())
