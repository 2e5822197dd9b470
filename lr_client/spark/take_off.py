"""Taking off a receive queue what a stream of Spark's has committed, with the marks of the queue's subscriber."""

from contextlib import suppress

from sqlalchemy import Connection, Engine

from discovery.registry import ReceiveQueue
from lr_client.spark.offsets import Offset, Span, at_end, between, is_before
from lr_client.spark.receive_queue import View, gone, look, require
from queues import leases
from queues.errors import NeedsFullSyncError, StoreUnavailableError
from queues.leases import Lease
from queues.receive import consuming, snapshot
from queues.receive.consuming import IN_LOG, Consumed, Received
from queues.transactions import writing


def lags(view: View, at: Offset) -> bool:
    """Tell whether the marks of the queue are not where the checkpoint is; what was replaced meanwhile is no matter."""
    same = at.sync_id == view.received.sync_id
    return same and (view.total != at.total or is_before(view.consumed, at))


def take_off(engine: Engine, queue: ReceiveQueue, lease: Lease, at: Offset) -> None:
    """Move the marks, which lag behind *at*, to there, and delete what came up to there: all of it or nothing.

    Raises `OwnershipLostError` when another subscriber has taken over, `NeedsFullSyncError` when it has taken off what
    the stream has not read, or when what the stream has read is not what is there.
    """
    with writing(engine) as connection:
        view = look(connection, queue.queue_id)
        entries = at.total - view.total
        if entries < 0:
            raise passed(queue)
        moved = consuming.move(connection, queue.queue_id, lease, view.consumed, at.consumed, applied=entries)
        leases.check(connection, lease)
        if not moved:
            raise StoreUnavailableError(f"the marks of {queue.name} were moved at this moment: start again")
        if entries:
            _remove(connection, queue, view, at, entries)


def settle(engine: Engine, queue: ReceiveQueue, lease: Lease, view: View) -> None:
    """Move the marks over what has come without an entry for us, so that who waits for them sees it."""
    to = at_end(view.received)
    if view.consumed == to:
        return
    with suppress(_ChangedError), writing(engine) as connection:
        moved = consuming.move(connection, queue.queue_id, lease, view.consumed, to)
        leases.check(connection, lease)
        if not moved or not consuming.still_received(connection, queue.queue_id, to, to):
            raise _ChangedError


def undoing(queue: ReceiveQueue) -> NeedsFullSyncError:
    """Return the error that says that a listener has not finished."""
    return NeedsFullSyncError(
        f"{queue.source} has lost entries that a listener has applied from {queue.name} and has yet to undo. "
        f"Request a snapshot from {queue.source}, or let the listener do it first"
    )


def passed(queue: ReceiveQueue) -> NeedsFullSyncError:
    """Return the error that says that another subscriber was there."""
    return NeedsFullSyncError(
        f"another subscriber has taken entries off {queue.name} that this stream has not read. "
        f"Request a snapshot from {queue.source} and start again, or begin with a new checkpoint"
    )


class _ChangedError(Exception):
    """The queue is not as it was seen: look again."""


def _remove(connection: Connection, queue: ReceiveQueue, view: View, at: Offset, entries: int) -> None:
    # The marks have moved, so the sink does not go back behind them any more.
    received = look(connection, queue.queue_id).received
    if received.sync_id != at.sync_id:
        return  # a newer snapshot has replaced them
    removed = _delete(connection, queue, view.consumed, at, received)
    if removed != entries and look(connection, queue.queue_id).received.sync_id == at.sync_id:
        raise gone(queue, between(view.start, at, received), removed, entries)


def _delete(connection: Connection, queue: ReceiveQueue, seen: Consumed, at: Offset, received: Received) -> int:
    same = seen.sync_id == at.sync_id
    in_log = same and seen.phase == IN_LOG
    removed = 0
    if not in_log:
        after = seen.row_no if same else 0
        removed += snapshot.remove(connection, queue.queue_id, at.sync_id, after=after, upto=at.row_no)
    if at.phase == IN_LOG:
        span = Span(IN_LOG, at.sync_id, at.branch, seen.seq if in_log else received.base_seq, at.seq)
        require(connection, queue, span)
        below = Consumed(IN_LOG, at.sync_id, at.row_no, "", span.after)
        removed += consuming.remove_entries(connection, queue.queue_id, below, received.branch, at.seq)
    return removed
