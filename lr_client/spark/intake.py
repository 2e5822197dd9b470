"""A stream of Spark's as a subscriber: where it stands, what comes next, and taking off what is committed.

Spark's checkpoint holds the offsets of the stream; the queue's own marks follow it. Spark asks for what comes after an
offset only when its checkpoint says that all up to there is done, so that is when entries are deleted, and no sooner:
a batch that is repeated after a crash is still all there.
"""

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import Connection

import queues
from discovery import registry
from discovery.registry import ReceiveQueue
from lr_client.spark.claim import Claim
from lr_client.spark.offsets import Offset, Span, at_end, between, markers, reached, remaining
from lr_client.spark.options import ReceiveOptions
from lr_client.spark.receive_queue import View, by_branch, gone, look, require
from lr_client.spark.receive_rows import count, cut, measure
from lr_client.spark.take_off import lags, passed, settle, take_off, undoing
from queues.leases import Lease
from queues.receive import consuming
from queues.receive.consuming import IN_LOG, IN_SNAPSHOT, Received
from queues.receive.upcoming import Limits
from queues.transactions import reading

#: By source.
Offsets = Mapping[str, Offset]


class Portion(NamedTuple):
    """What one Spark task reads: so many entries of a span, after the brackets of a snapshot that it begins with."""

    queue: ReceiveQueue
    span: Span
    entries: int
    markers: tuple[str, ...] = ()


class Intake:
    """Follows the receive queues of one client for one stream; unless told otherwise, as their only subscriber."""

    def __init__(self, options: ReceiveOptions) -> None:
        """Begin to stand by for the lease of the client's subscriber, if entries are to be taken off."""
        self._options = options
        self._engine = queues.create_engine(options.url)
        self._claim = Claim(self._engine, options.client, options.lease_seconds) if options.deletes else None
        self._enrolled: set[int] = set()

    def close(self) -> None:
        """Let another subscriber begin."""
        if self._claim is not None:
            self._claim.close()
        self._engine.dispose()

    def start(self) -> dict[str, Offset]:
        """Return where a stream without a checkpoint begins: where the last subscriber has come to."""
        self._lease()
        return {queue.source: self._look(queue).start for queue in self._queues()}

    def received(self) -> dict[str, Received]:
        """Return what has been received by now."""
        return {queue.source: self._look(queue).received for queue in self._queues()}

    def take_off(self, upto: Offsets) -> None:
        """Take off what came up to there: Spark has it for good."""
        lease = self._lease()
        for queue in self._queues():
            if queue.source in upto:
                self._caught_up(queue, upto[queue.source], lease)

    def after(
        self, start: Offsets, limits: Limits | None, *, until: Mapping[str, Received] | None = None
    ) -> dict[str, Offset]:
        """Take off what came up to *start*, and return where the next batch ends; *start* itself when there is none.

        A batch has whole source transactions of together at most *limits*, or a single larger one, and of each source
        either entries of one snapshot or of the log. With *until*, it does not go beyond what had been received then.
        """
        lease = self._lease()
        busy: list[tuple[ReceiveQueue, Offset, View]] = []
        for queue in self._queues():
            at = start.get(queue.source) or self._look(queue).start
            view = self._caught_up(queue, at, lease)
            received = view.received if until is None else _limited(view.received, until.get(queue.source))
            if received is not None and _has_news(view, at, received):
                busy.append((queue, _joined(queue, view, at), view._replace(received=received)))
        share = limits and Limits(max(1, limits.entries // max(1, len(busy))), limits.bytes // max(1, len(busy)))
        following = dict(start)
        for queue, at, view in busy:
            end = self._end(queue, at, view, share)
            if end is not None:
                following[queue.source] = end
            elif lease is not None and view.total == at.total:
                settle(self._engine, queue, lease, view)
        return following

    def plan(self, start: Offsets, end: Offsets) -> list[Portion]:
        """Cut the batch from *start* to *end* into portions, those of one queue in its order.

        Nothing is left of what a newer snapshot has replaced. Raises `NeedsFullSyncError` when something else is
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
                consuming.enroll(self._engine, queue.queue_id)
                self._enrolled.add(queue.queue_id)
        return found

    def _look(self, queue: ReceiveQueue) -> View:
        with reading(self._engine, snapshot=True) as connection:
            return look(connection, queue.queue_id)

    def _caught_up(self, queue: ReceiveQueue, at: Offset, lease: Lease | None) -> View:
        view = self._look(queue)
        if lease is not None and view.is_undoing:
            raise undoing(queue)
        if lease is None or not lags(view, at):
            return view
        take_off(self._engine, queue, lease, at)
        return self._look(queue)

    def _end(self, queue: ReceiveQueue, at: Offset, view: View, limits: Limits | None) -> Offset | None:
        """Return where the next batch of a queue ends; None when there is none."""
        received = view.received
        place = view.consumed if view.total == at.total else at.consumed
        with reading(self._engine, snapshot=True) as connection:
            for whole in remaining(place, received):
                for span in by_branch(connection, queue.queue_id, whole):
                    number, entries = measure(connection, queue, span, limits)
                    if entries:
                        return reached(at, span, number, entries, received)
        newer = at.sync_id != received.sync_id  # an empty snapshot: the checkpoint has to know of it
        if newer or (self._options.markers and at.phase == IN_SNAPSHOT):
            base = Span(IN_LOG, received.sync_id, received.branch, received.base_seq, received.base_seq)
            return reached(at, base, base.upto, 0, received)
        return None


def wanted_queues(connection: Connection, options: ReceiveOptions) -> list[ReceiveQueue]:
    """Return the receive queues that the options name."""
    found = registry.find(connection, options.client)
    return [queue for queue in found if options.source in (None, queue.source)]


def _has_news(view: View, at: Offset, received: Received) -> bool:
    end = at_end(received)
    settled = at.consumed == end or (view.total == at.total and view.consumed == end)
    return at.sync_id != received.sync_id or not settled


def _limited(received: Received, until: Received | None) -> Received | None:
    """Return what of *received* had been received by *until*; None for nothing."""
    if until is None or until.sync_id != received.sync_id:
        return None
    return received._replace(boundary_seq=min(received.boundary_seq, until.boundary_seq))


def _joined(queue: ReceiveQueue, view: View, at: Offset) -> Offset:
    """Return *at* so that its total goes on with that of the marks; raise when a subscriber has passed it."""
    consumed, total, received, _ = view
    if at.sync_id == received.sync_id:
        if total > at.total:
            raise passed(queue)
        return at
    if consumed.sync_id == received.sync_id and (consumed.phase == IN_LOG or consumed.row_no > 0):
        raise passed(queue)  # of the newer snapshot
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
