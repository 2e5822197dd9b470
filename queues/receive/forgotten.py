"""Remove a receive queue with all its rows, so that nothing is left of it."""

from typing import Final

from sqlalchemy import Connection, delete, func, select, update

from queues.database.tables.consumers import consumer_failures, consumers, parked_entries
from queues.database.tables.receive import (
    receive_blocks,
    receive_branches,
    receive_headers,
    receive_marks,
    receive_queues,
    receive_snapshot_blocks,
    replays,
)
from queues.database.tables.replicas import told_members
from queues.database.tables.sessions import link_changes
from queues.database.tables.shards import shard_changes, shard_failures, shard_marks
from queues.receive.registry import ReceiveQueue

#: The marks come first, because writers and subscribers lock them first.
_TABLES: Final = (
    receive_marks,
    consumers,
    receive_headers,
    receive_blocks,
    receive_snapshot_blocks,
    consumer_failures,
    parked_entries,
    replays,
    shard_changes,
    shard_failures,
    shard_marks,
    receive_queues,
)


def forget_queue(connection: Connection, queue: ReceiveQueue) -> None:
    """Delete *queue*. A source that goes on gets a new queue, which is empty."""
    for table in _TABLES:
        connection.execute(delete(table).where(table.c.queue_id == queue.queue_id))
    for told in (receive_branches, told_members):
        connection.execute(delete(told).where(told.c.client == queue.client, told.c.source == queue.source))
    # SQLite would give the id away again, while a subscriber still follows it.
    lower = link_changes.c.last_queue_id < queue.queue_id
    connection.execute(update(link_changes).where(lower).values(last_queue_id=queue.queue_id))


def next_queue_id(connection: Connection) -> int:
    """Return an id that no queue has or had; SQLite, under the write lock."""
    highest = select(func.coalesce(func.max(receive_queues.c.queue_id), 0)).scalar_subquery()
    last, used = connection.execute(select(link_changes.c.last_queue_id, highest)).one()
    return max(int(last), int(used)) + 1
