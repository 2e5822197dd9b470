"""Delete the entries that a Spark stream has committed, and move the subscriber's marks of the receive queue."""

from contextlib import suppress

from sqlalchemy import Connection, Engine

from discovery.registry import ReceiveQueue
from lr_client.spark.receive.offsets import Offset, Span, at_end, between, is_before
from lr_client.spark.receive.queue import QueueView, gone, look, require
from queues.database import leases
from queues.database.leases import Lease
from queues.database.transactions import writing
from queues.errors import NeedsFullSyncError, StoreUnavailableError
from queues.receive import consumer_moves, log_blocks, snapshot_blocks
from queues.receive.consumer_marks import IN_LOG, Consumed, Received


def lags(view: QueueView, at: Offset) -> bool:
    """Return whether the queue's marks differ from the checkpoint *at*; False if *at* is in a replaced snapshot."""
    same = at.sync_id == view.received.sync_id
    return same and (view.total != at.total or is_before(view.consumed, at))


def consume(engine: Engine, queue: ReceiveQueue, lease: Lease, at: Offset) -> None:
    """Move the marks forward to *at* and delete all entries up to *at*, in one transaction.

    Raises:
        OwnershipLostError: another subscriber has taken over.
        NeedsFullSyncError: another subscriber removed entries that the stream has not read, or the entries in the queue
            are not the ones that the stream has read.
        StoreUnavailableError: the marks were moved at the same moment, or the database cannot be used.
    """
    with writing(engine) as connection:
        view = look(connection, queue.queue_id)
        entries = at.total - view.total
        if entries < 0:
            raise passed(queue)
        size = _size_upto(connection, queue, view, at)
        to = at.consumed
        moved = consumer_moves.move(
            connection, queue.queue_id, lease, view.consumed, to, applied=entries, applied_bytes=size
        )
        leases.check(connection, lease)
        if not moved:
            raise StoreUnavailableError(f"the marks of {queue.name} were moved at this moment: start again")
        if entries:
            _remove(connection, queue, view, at, entries)


def settle(engine: Engine, queue: ReceiveQueue, lease: Lease, view: QueueView) -> None:
    """Move the marks to the end of a queue without further entries, so that `wait_applied` can return."""
    to = at_end(view.received)
    if view.consumed == to:
        return
    with suppress(_ChangedError), writing(engine) as connection:
        moved = consumer_moves.move(connection, queue.queue_id, lease, view.consumed, to)
        leases.check(connection, lease)
        if not moved or not consumer_moves.still_received(connection, queue.queue_id, to, to):
            raise _ChangedError


def undoing(queue: ReceiveQueue) -> NeedsFullSyncError:
    """Return the error for a queue whose listener has yet to undo lost entries."""
    return NeedsFullSyncError(
        f"{queue.source} has lost entries that a listener has applied from {queue.name} and has yet to undo. "
        f"Request a snapshot from {queue.source}, or let the listener do it first"
    )


def passed(queue: ReceiveQueue) -> NeedsFullSyncError:
    """Return the error for a queue from which another subscriber removed unread entries."""
    return NeedsFullSyncError(
        f"another subscriber has taken entries off {queue.name} that this stream has not read. "
        f"Request a snapshot from {queue.source} and start again, or begin with a new checkpoint"
    )


class _ChangedError(Exception):
    """The queue has changed since it was read: read the queue again."""


def _size_upto(connection: Connection, queue: ReceiveQueue, view: QueueView, at: Offset) -> int:
    if at.phase != IN_LOG or view.received.sync_id != at.sync_id:
        return 0
    return log_blocks.size_upto(connection, queue.queue_id, 0, at.seq)


def _remove(connection: Connection, queue: ReceiveQueue, view: QueueView, at: Offset, entries: int) -> None:
    # The marks have moved in this transaction, so the sink cannot go back behind them.
    received = look(connection, queue.queue_id).received
    if received.sync_id != at.sync_id:
        return  # a newer snapshot has replaced the entries
    removed = _delete(connection, queue, view.consumed, at, received)
    if removed != entries and look(connection, queue.queue_id).received.sync_id == at.sync_id:
        raise gone(queue, between(view.start, at, received), removed, entries)


def _delete(connection: Connection, queue: ReceiveQueue, seen: Consumed, at: Offset, received: Received) -> int:
    same = seen.sync_id == at.sync_id
    in_log = same and seen.phase == IN_LOG
    removed = 0
    if not in_log:
        after = seen.row_no if same else 0
        removed += snapshot_blocks.remove(connection, queue.queue_id, at.sync_id, after=after, upto=at.row_no)
    if at.phase == IN_LOG:
        span = Span(IN_LOG, at.sync_id, at.branch, seen.seq if in_log else received.base_seq, at.seq)
        require(connection, queue, span)
        below = Consumed(IN_LOG, at.sync_id, at.row_no, "", span.after)
        removed += consumer_moves.remove_entries(connection, queue.queue_id, below, received.branch, at.seq)
    return removed
