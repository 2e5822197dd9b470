"""A receive queue as Spark's formats see it: both sides' marks, and whether a span is still what was received."""

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from discovery.registry import ReceiveQueue
from lr_client.spark.offsets import Offset, Span
from queues.errors import NeedsFullSyncError, TransientError
from queues.receive.consuming import IN_LOG, IN_SNAPSHOT, NOWHERE, Consumed, Received
from queues.tables import consumers, receive_headers, receive_marks


class View(NamedTuple):
    """Both sides' marks of one queue at one moment; `total` counts what subscribers have ever taken off.

    `is_undoing`: the source has lost entries that a listener has applied, and should undo.
    """

    consumed: Consumed
    total: int
    received: Received
    is_undoing: bool = False

    @property
    def start(self) -> Offset:
        """Where a subscriber that begins now begins."""
        return Offset(*self.consumed, total=self.total)


def look(connection: Connection, queue_id: int) -> View:
    """Read both sides' marks in one statement; those of a queue without a subscriber are at the origin."""
    marks = [receive_marks.c[name] for name in Received._fields]
    own = [consumers.c[name] for name in (*Consumed._fields, "applied_total", "back_seq")]
    row = connection.execute(
        select(*marks, *own)
        .outerjoin_from(receive_marks, consumers, consumers.c.queue_id == receive_marks.c.queue_id)
        .where(receive_marks.c.queue_id == queue_id)
    ).one()
    received = Received(*row[: len(marks)])
    phase, *rest, total, back_seq = row[len(marks) :]
    if phase is None:
        return View(Consumed(IN_LOG, "", 0, "", 0), 0, received)
    consumed = Consumed(phase, *rest)
    return View(consumed, total, received, back_seq != NOWHERE and consumed.sync_id == received.sync_id)


def by_branch(connection: Connection, queue_id: int, span: Span) -> Iterator[Span]:
    """Cut a span of the log where the branch changes; one of a snapshot stays whole."""
    if span.kind == IN_SNAPSHOT:
        yield span
        return
    while span.upto > span.after:
        branch = _branch_at(connection, queue_id, span.after + 1) or span.branch
        upto = span.upto
        if branch != span.branch:
            own = (receive_headers.c.queue_id == queue_id, receive_headers.c.branch == branch)
            upto = min(upto, connection.execute(select(func.max(receive_headers.c.seq)).where(*own)).scalar_one())
        yield span._replace(branch=branch, upto=upto)
        span = span._replace(after=upto)


def require(connection: Connection, queue: ReceiveQueue, span: Span) -> None:
    """Make sure that the entries of *span* are those that were received when it was planned.

    Raises `TransientError` when a newer snapshot has replaced them, `NeedsFullSyncError` when the source has lost
    them and the sink went back.
    """
    received = look(connection, queue.queue_id).received
    if received.sync_id != span.sync_id:
        raise TransientError(
            f"a newer snapshot from {queue.source} has replaced what was being read from {queue.name}: "
            "start again, it goes on with that snapshot"
        )
    if span.kind == IN_SNAPSHOT:
        return
    same = span.branch == received.branch or span.branch == _branch_at(connection, queue.queue_id, span.upto)
    if span.upto > received.boundary_seq or not same:
        raise NeedsFullSyncError(
            f"{queue.name} does not reach {span.branch}@{span.upto} any more: {queue.source} has lost those entries "
            f"and went back (it is at {received.branch}@{received.boundary_seq}). "
            f"Request a snapshot from {queue.source}, then start again"
        )


def gone(queue: ReceiveQueue, span: Span, found: int, entries: int) -> NeedsFullSyncError:
    """Return the error that says that entries of a span were taken off."""
    what = f"snapshot {span.sync_id}" if span.kind == IN_SNAPSHOT else "the log"
    return NeedsFullSyncError(
        f"of {entries} entries between {span.after} and {span.upto} of {what} only {found} are left in {queue.name}: "
        f"another subscriber has taken the rest off. Request a snapshot from {queue.source}, then start again"
    )


def _branch_at(connection: Connection, queue_id: int, number: int) -> str | None:
    """Return the branch that *number* belongs to: that of the tick which holds it."""
    own = (receive_headers.c.queue_id == queue_id, receive_headers.c.seq >= number)
    holding = select(receive_headers.c.branch).where(*own).order_by(receive_headers.c.seq).limit(1)
    return connection.execute(holding).scalar()
