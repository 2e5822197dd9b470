"""A receive queue seen from Spark: the marks of writer and subscriber, and checks that a span is unchanged."""

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Connection

from discovery.registry import ReceiveQueue
from lr_client.spark.receive.offsets import MARKS, Offset, Span
from queues.errors import NeedsFullSyncError, TransientError
from queues.receive.consumer_marks import IN_LOG, IN_SNAPSHOT, NOWHERE, Consumed, Received
from queues.receive.headers import branch_of, end_of_branch, is_of_another_branch
from queues.receive.queue_marks import queue_marks


class QueueView(NamedTuple):
    """The marks of the writer and the subscriber of one queue; `total` counts all entries ever removed by subscribers.

    `is_undoing`: the source has lost entries that a listener has applied and must undo.
    """

    consumed: Consumed
    total: int
    received: Received
    is_undoing: bool = False

    @property
    def start(self) -> Offset:
        """The offset at which a new subscriber would begin."""
        return Offset(*self.consumed[:MARKS], total=self.total)


def look(connection: Connection, queue_id: int) -> QueueView:
    """Read the marks of writer and subscriber in one statement; without a subscriber, its marks are at the origin."""
    received, consumed, total, back_seq = queue_marks(connection, queue_id)
    if consumed is None:
        return QueueView(Consumed(IN_LOG, "", 0, "", 0), 0, received)
    is_undoing = back_seq != NOWHERE and consumed.sync_id == received.sync_id
    if is_undoing:
        # The numbers after this one belong to other entries now, which no subscriber has applied.
        consumed = consumed._replace(seq=min(consumed.seq, back_seq))
    return QueueView(consumed, total, received, is_undoing)


def by_branch(connection: Connection, queue_id: int, span: Span) -> Iterator[Span]:
    """Divide a span of the log at each change of branch; yield a span of a snapshot as it is."""
    if span.kind == IN_SNAPSHOT:
        yield span
        return
    while span.upto > span.after:
        branch = branch_of(connection, queue_id, span.after + 1) or span.branch
        upto = span.upto
        if branch != span.branch:
            upto = min(upto, end_of_branch(connection, queue_id, branch))
        yield span._replace(branch=branch, upto=upto)
        span = span._replace(after=upto)


def require(connection: Connection, queue: ReceiveQueue, span: Span) -> None:
    """Raise an error unless the entries of *span* are still the ones of the planning.

    Raises `TransientError` when a newer snapshot has replaced the entries. Raises `NeedsFullSyncError` when the source
    has lost the entries and the sink went back.
    """
    received = look(connection, queue.queue_id).received
    if received.sync_id != span.sync_id:
        raise TransientError(
            f"a newer snapshot from {queue.source} has replaced the entries being read from {queue.name}: "
            "start again, the stream continues with that snapshot"
        )
    if span.kind == IN_SNAPSHOT:
        return
    same = span.branch == received.branch or span.branch == branch_of(connection, queue.queue_id, span.upto)
    if span.upto > received.boundary_seq or not same:
        raise _went_back(queue, span.branch, span.upto, received)


def require_read(connection: Connection, queue: ReceiveQueue, at: Offset) -> None:
    """Raise `NeedsFullSyncError` if the source has lost entries up to *at*, which a stream has read and not deleted."""
    received = look(connection, queue.queue_id).received
    if at.phase != IN_LOG or at.sync_id != received.sync_id or at.seq <= received.base_seq:
        return
    if at.seq > received.boundary_seq or is_of_another_branch(connection, queue.queue_id, at.branch, at.seq):
        raise _went_back(queue, at.branch, at.seq, received)


def _went_back(queue: ReceiveQueue, branch: str, seq: int, received: Received) -> NeedsFullSyncError:
    return NeedsFullSyncError(
        f"{queue.name} does not reach {branch}@{seq} any more: {queue.source} has lost those entries "
        f"and went back (it is at {received.branch}@{received.boundary_seq}). "
        f"Request a snapshot from {queue.source}, then start again"
    )


def gone(queue: ReceiveQueue, span: Span, found: int, entries: int) -> NeedsFullSyncError:
    """Return the error for a span from which another subscriber has removed entries."""
    what = f"snapshot {span.sync_id}" if span.kind == IN_SNAPSHOT else "the log"
    return NeedsFullSyncError(
        f"of {entries} entries between {span.after} and {span.upto} of {what} only {found} are left in {queue.name}: "
        f"another subscriber has taken the rest off. Request a snapshot from {queue.source}, then start again"
    )
