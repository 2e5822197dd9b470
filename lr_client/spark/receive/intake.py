"""A Spark stream as a subscriber: its start, the ends of its batches, and the deletion of committed entries.

Spark's checkpoint holds the offsets of the stream; the queue's marks follow the checkpoint. Spark asks for the batch
after an offset only when its checkpoint says that all before is done. Entries are deleted then and no sooner, so a
batch that Spark repeats after a crash is still complete.
"""

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import Connection

import queues
from discovery import registry
from discovery.registry import ReceiveQueue
from lr_client.spark.options import ReceiveOptions
from lr_client.spark.receive.consume import consume, lags, passed, settle, undoing
from lr_client.spark.receive.lease_claim import LeaseClaim
from lr_client.spark.receive.offsets import Offset, Span, at_end, between, markers, reached, remaining
from lr_client.spark.receive.queue import QueueView, by_branch, gone, look, require, require_read
from lr_client.spark.receive.rows import count, cut, measure
from queues.database.leases import Lease
from queues.database.transactions import reading
from queues.receive import consumer_marks
from queues.receive.batches import BatchLimits
from queues.receive.consumer_marks import IN_LOG, IN_SNAPSHOT, Received

#: The offset of each source.
Offsets = Mapping[str, Offset]


class Portion(NamedTuple):
    """The work of one Spark task: the snapshot markers to emit first, then the *entries* entries of a span."""

    queue: ReceiveQueue
    span: Span
    entries: int
    markers: tuple[str, ...] = ()


class StreamSubscription:
    """Follows the receive queues of one client for one stream; with `deleteOnCommit`, as their only subscriber."""

    def __init__(self, options: ReceiveOptions) -> None:
        """Start to wait for the subscriber lease of the client if *options* ask for the deletion of entries."""
        self._options = options
        self._engine = queues.create_engine(options.url)
        self._claim = LeaseClaim(self._engine, options.client, options.lease_seconds) if options.deletes else None
        self._enrolled: set[int] = set()

    def close(self) -> None:
        """Release the lease, so that another subscriber can begin, and close the connections."""
        if self._claim is not None:
            self._claim.close()
        self._engine.dispose()

    def start(self) -> dict[str, Offset]:
        """Return the offsets at which a stream without a checkpoint begins: the marks of the last subscriber."""
        self._lease()
        return {queue.source: self._look(queue).start for queue in self._queues()}

    def received(self) -> dict[str, Received]:
        """Return the received marks of each source now."""
        return {queue.source: self._look(queue).received for queue in self._queues()}

    def consume(self, upto: Offsets) -> None:
        """Delete the entries up to *upto*, which Spark has committed.

        Raises like the function `consume`, and `WaitTimeoutError` while another subscriber holds the lease.
        """
        lease = self._lease()
        for queue in self._queues():
            if queue.source in upto:
                self._caught_up(queue, upto[queue.source], lease)

    def after(
        self, start: Offsets, limits: BatchLimits | None, *, until: Mapping[str, Received] | None = None
    ) -> dict[str, Offset]:
        """Delete the entries up to *start*, and return the end of the next batch; *start* itself when there is none.

        A batch has whole source transactions within *limits*, or a single larger transaction. The entries of one source
        come all from one snapshot or all from the log. With *until*, the batch ends at these received marks at the
        latest. Raises like the method `consume`.
        """
        lease = self._lease()
        busy: list[tuple[ReceiveQueue, Offset, QueueView]] = []
        for queue in self._queues():
            at = start.get(queue.source) or self._look(queue).start
            view = self._caught_up(queue, at, lease)
            received = view.received if until is None else _limited(view.received, until.get(queue.source))
            if received is not None and _has_news(view, at, received):
                busy.append((queue, _joined(queue, view, at), view._replace(received=received)))
        share = limits and BatchLimits(max(1, limits.entries // max(1, len(busy))), limits.bytes // max(1, len(busy)))
        following = dict(start)
        for queue, at, view in busy:
            end = self._end(queue, at, view, share)
            if end is not None:
                following[queue.source] = end
            elif lease is not None and view.total == at.total:
                settle(self._engine, queue, lease, view)
        return following

    def plan(self, start: Offsets, end: Offsets) -> list[Portion]:
        """Divide the batch from *start* to *end* into portions; the portions of one queue are in its order.

        Entries that a newer snapshot has replaced are omitted. Raises `NeedsFullSyncError` when other entries are
        missing.
        """
        self._lease()
        portions: list[Portion] = []
        for queue in self._queues():
            to = end.get(queue.source)
            if to is None or to == start.get(queue.source):
                continue
            with reading(self._engine, snapshot=True) as connection:
                view = look(connection, queue.queue_id)
                if view.received.sync_id == to.sync_id:
                    begin = start.get(queue.source, view.start)
                    portions += _portions(connection, queue, begin, to, view.received, self._options)
        return portions

    def _lease(self) -> Lease | None:
        return None if self._claim is None else self._claim.lease()

    def _queues(self) -> list[ReceiveQueue]:
        with reading(self._engine) as connection:
            found = wanted_queues(connection, self._options)
        for queue in found:
            if self._claim is not None and queue.queue_id not in self._enrolled:
                consumer_marks.enroll(self._engine, queue.queue_id)
                self._enrolled.add(queue.queue_id)
        return found

    def _look(self, queue: ReceiveQueue) -> QueueView:
        with reading(self._engine, snapshot=True) as connection:
            return look(connection, queue.queue_id)

    def _caught_up(self, queue: ReceiveQueue, at: Offset, lease: Lease | None) -> QueueView:
        view = self._look(queue)
        if lease is not None and view.is_undoing:
            raise undoing(queue)
        if lease is None:
            with reading(self._engine, snapshot=True) as connection:
                require_read(connection, queue, at)
        if lease is None or not lags(view, at):
            return view
        consume(self._engine, queue, lease, at)
        return self._look(queue)

    def _end(self, queue: ReceiveQueue, at: Offset, view: QueueView, limits: BatchLimits | None) -> Offset | None:
        """Return the end of the next batch of one queue; None when there is none."""
        received = view.received
        place = view.consumed if view.total == at.total else at.consumed
        with reading(self._engine, snapshot=True) as connection:
            for whole in remaining(place, received):
                for span in by_branch(connection, queue.queue_id, whole):
                    number, entries = measure(connection, queue, span, limits)
                    if entries:
                        return reached(at, span, number, entries, received)
        newer = at.sync_id != received.sync_id  # an empty snapshot must still reach the checkpoint
        if newer or (self._options.markers and at.phase == IN_SNAPSHOT):
            base = Span(IN_LOG, received.sync_id, received.branch, received.base_seq, received.base_seq)
            return reached(at, base, base.upto, 0, received)
        return None


def wanted_queues(connection: Connection, options: ReceiveOptions) -> list[ReceiveQueue]:
    """Return the receive queues of the client, and of the source if *options* name one."""
    found = registry.find(connection, options.client)
    return [queue for queue in found if options.source in (None, queue.source)]


def _has_news(view: QueueView, at: Offset, received: Received) -> bool:
    end = at_end(received)
    settled = at.consumed == end or (view.total == at.total and view.consumed == end)
    return at.sync_id != received.sync_id or not settled


def _limited(received: Received, until: Received | None) -> Received | None:
    """Return *received*, ending at *until* at the latest; None when *until* is missing or of another snapshot."""
    if until is None or until.sync_id != received.sync_id:
        return None
    return received._replace(boundary_seq=min(received.boundary_seq, until.boundary_seq))


def _joined(queue: ReceiveQueue, view: QueueView, at: Offset) -> Offset:
    """Return *at* with a `total` that continues the marks' total.

    Raises `NeedsFullSyncError` when another subscriber has gone beyond *at*.
    """
    consumed, total, received, _ = view
    if at.sync_id == received.sync_id:
        if total > at.total:
            raise passed(queue)
        return at
    if consumed.sync_id == received.sync_id and (consumed.phase == IN_LOG or consumed.row_no > 0):
        raise passed(queue)  # another subscriber began the newer snapshot
    return at._replace(total=total)


def _portions(
    connection: Connection, queue: ReceiveQueue, start: Offset, end: Offset, received: Received, options: ReceiveOptions
) -> list[Portion]:
    span = between(start, end, received)
    pieces = [(span, 0)]
    if end.entries:
        require(connection, queue, span)
        found = count(connection, queue.queue_id, span)
        if found != end.entries:
            raise gone(queue, span, found, end.entries)
        pieces = cut(connection, queue.queue_id, span, found, options.partitions)
    portions = [Portion(queue, piece, entries) for piece, entries in pieces]
    if options.markers:
        portions[0] = portions[0]._replace(markers=markers(start, end))
    return portions
