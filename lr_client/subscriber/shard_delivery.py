"""The steps of one shard: each is one transaction over the position of the shard, its lease and the listener."""

from collections.abc import Sequence

from sqlalchemy import Connection, Engine
from sqlalchemy.orm import Session

from discovery.registry import ReceiveQueue
from lr_client.subscriber.delivery import Delivery, Superseded
from lr_client.subscriber.listener import RoutingQueueListener
from lr_client.subscriber.shard_pace import Pace
from lr_client.subscriber.shard_steps import ShardStep
from lr_client.subscriber.steps import DeliveryStep, Kind
from queues.clock import Clock
from queues.database.dialect import Statement
from queues.database.leases import Lease
from queues.database.transactions import reading
from queues.receive import failures, shard_marks, shard_upkeep
from queues.receive.consumer_marks import NOWHERE

#: The steps of shard 0 for which all shards must stand still; in a snapshot, the others stand still anyway.
_FOR_ALL = (Kind.ROLLBACK, Kind.RETRY, Kind.SNAPSHOT_START, Kind.SNAPSHOT_COMPLETE, Kind.STREAM_END)
#: The steps after which all shards stand at the same position.
_LEVELLING = (Kind.ROLLBACK, Kind.SNAPSHOT_START, Kind.SNAPSHOT_COMPLETE)


class ShardDelivery(Delivery):
    """Carries out the steps of one shard of a queue, and for shard 0 also the steps of all shards."""

    def __init__(
        self,
        engine: Engine,
        listener: RoutingQueueListener,
        queue: ReceiveQueue,
        lease: Lease,
        *,
        shard: int,
        trace: bool = True,
        timed: tuple[Clock, Pace] | None = None,
    ) -> None:
        """Deliver *shard* until another subscriber takes over *lease*, the lease of that shard.

        With *timed*, calls of the listener for entries of the log are measured by the clock for the pace.
        """
        super().__init__(engine, listener, queue, lease, trace=trace, fence=shard_upkeep.fence_of(lease))
        self._shard = shard
        self._timed = timed

    def _call(self, session: Session, step: DeliveryStep) -> None:
        if self._timed is None or not isinstance(step, ShardStep) or not step.rows:
            super()._call(session, step)
            return
        clock, pace = self._timed
        began = clock.monotonic()
        super()._call(session, step)
        pace.note(len(step.rows), clock.monotonic() - began)

    def _claim(
        self, connection: Connection, step: DeliveryStep, claimed_us: int, then: Sequence[Statement] = ()
    ) -> None:
        queue_id = self._queue.queue_id
        if not isinstance(step, ShardStep):
            locks = [shard_marks.locking(queue_id)] if step.kind in _FOR_ALL else []
            super()._claim(connection, step, claimed_us, [*locks, *then])
            return
        marks = step.row, self._lease, step.seen, step.to
        if not shard_marks.claim(connection, queue_id, *marks, claimed_us=claimed_us, then=then):
            raise Superseded

    def _was_committed(self, claimed_us: int) -> bool:
        with reading(self._engine) as connection:
            claimed = shard_marks.was_claimed(connection, self._queue.queue_id, self._shard, claimed_us)
        return claimed or super()._was_committed(claimed_us)

    def _forget_failure(self, connection: Connection) -> None:
        failures.clear(connection, self._queue.queue_id, self._shard)

    def _complete(self, connection: Connection, step: DeliveryStep) -> None:
        queue_id = self._queue.queue_id
        if not isinstance(step, ShardStep):
            super()._complete(connection, step)
            if step.kind in _LEVELLING:
                shard_marks.level(connection, queue_id, step.to.seq)
            return
        shard_marks.move(connection, queue_id, step.row, self._lease, step.to.seq, applied=len(step.rows))
        if step.lift != NOWHERE:
            shard_marks.lift(connection, queue_id, self._shard, step.lift)
