"""Follow one shard of a receive queue; the follower of shard 0 also keeps the whole queue in order."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from sqlalchemy import Connection

from lr_client.subscriber.followed_queue import FollowedQueue
from lr_client.subscriber.follower import Follower
from lr_client.subscriber.shard_balance import balance
from lr_client.subscriber.shard_delivery import ShardDelivery
from lr_client.subscriber.shard_pace import Pace
from lr_client.subscriber.shard_steps import KnownMaps, ShardedQueue, ShardStep, next_shard_step, read_shards
from lr_client.subscriber.sleepers import Sleeper
from lr_client.subscriber.steps import DeliveryStep, next_kind
from queues.database.transactions import reading, writing, writing_briefly
from queues.errors import LrqError, NeedsFullSyncError, UsageError
from queues.receive import shard_marks, shard_upkeep, stored_shard_maps
from queues.receive.shard_upkeep import ShardsChanged
from queues.shard_plan import FIRST

#: The shortest time between two moves of the queue's marks while the shard delivers, in seconds.
_SETTLE: Final = 0.2
#: The time between two looks for a better balance, in seconds.
_BALANCE: Final = 1.0
#: The time that a queue without shards leaves the other queues of its client to lose theirs, in seconds.
_PATIENCE: Final = 1.0


class Nudges:
    """Wakes the other shards of a queue in this process after each step."""

    def __init__(self) -> None:
        """Know no follower yet."""
        self._lock = threading.Lock()
        self._sleepers: dict[int, list[Sleeper]] = {}

    def join(self, sleeper: Sleeper) -> None:
        """Wake also this follower of a queue."""
        with self._lock:
            self._sleepers.setdefault(sleeper.queue_id, []).append(sleeper)

    def leave(self, sleeper: Sleeper) -> None:
        """Forget a follower that has ended."""
        with self._lock:
            self._sleepers[sleeper.queue_id].remove(sleeper)

    def wake(self, own: Sleeper) -> None:
        """Wake the other followers of the queue of *own*."""
        with self._lock:
            sleepers = list(self._sleepers.get(own.queue_id, ()))
        for sleeper in sleepers:
            if sleeper is not own:
                sleeper.wake()


class ShardFollower(Follower):
    """Follows one shard of one queue under the lease of that shard."""

    def __init__(self, followed: FollowedQueue, *, shard: int, nudges: Nudges) -> None:
        """Prepare to follow *shard*; *nudges* wake its other shards in this process."""
        engine, listener, queue, lease = followed.engine, followed.listener, followed.queue, followed.lease
        self._pace = Pace()
        delivery = ShardDelivery(
            engine,
            listener,
            queue,
            lease,
            shard=shard,
            trace=followed.options.trace,
            timed=(followed.clock, self._pace),
        )
        super().__init__(followed, delivery, shard=shard)
        self._shard = shard
        self._lease = lease
        self._maps = KnownMaps(queue.client)
        self._nudges = nudges
        self._is_applied = False
        self._settled = self._rested = followed.clock.monotonic()
        # A queue is balanced before it gets its shards. Later the fastest shards would be far ahead of a new map.
        self._balanced = self._settled - _BALANCE

    def run(self) -> None:
        """Follow the shard; raise `OwnershipLostError` when another subscriber has taken over."""
        with self._nudging():
            super().run()

    @contextmanager
    def _nudging(self) -> Iterator[None]:
        self._nudges.join(self._sleeper)
        try:
            yield
        finally:
            self._nudges.leave(self._sleeper)

    def _next(self) -> DeliveryStep | None:
        while not self._stopping.is_set():
            with reading(self._engine, snapshot=True, rewritten=False) as connection:
                queue = read_shards(
                    connection, self._queue.queue_id, self._queue.client, self._maps, newest=self._shard == FIRST
                )
                if queue is None:
                    return None
                self._is_applied = queue.is_applied
                step, problem = self._planned(connection, queue)
            with suppress(ShardsChanged):
                # A shard's own step stays valid while the marks of all move.
                if not self._keep(queue, is_idle=step is None) and (
                    not self._settles(queue, is_idle=step is None) or isinstance(step, ShardStep)
                ):
                    if problem is not None:
                        raise problem
                    return step
        return None

    def _notified_pause(self) -> float:
        """Return the usual pause, unless no other shard has work: those of other processes move without a wakeup.

        Shard 0 also looks for new maps.
        """
        is_seldom = self._is_applied and self._shard != FIRST
        return super()._notified_pause() if is_seldom else self._options.idle

    def _planned(self, connection: Connection, queue: ShardedQueue) -> tuple[DeliveryStep | None, LrqError | None]:
        """Return the next step, or the error in its place, for which a new map may be the cure."""
        limits, one = self._options.limits, self._one_by_one()
        stretch = self._pace.stretch(limits.entries)
        try:
            return next_shard_step(connection, queue, self._shard, limits, self._kept, one=one, stretch=stretch), None
        except (NeedsFullSyncError, UsageError) as problem:
            return None, problem

    def _done(self, step: DeliveryStep) -> float | None:
        pause = super()._done(step)
        self._nudges.wake(self._sleeper)
        # A limit may end a step without an own entry, and the others wait for this shard to pass theirs.
        return 0 if isinstance(step, ShardStep) and step.has_more else pause

    def _keep(self, queue: ShardedQueue, *, is_idle: bool) -> bool:
        """Make the next change for all shards that keeps the queue in order; return False if there is none."""
        if self._shard == FIRST and (self._balances(queue) or self._adopts(queue)):
            return True
        return is_idle and self._shard == FIRST and queue.is_in_log and self._retires(queue)

    def _settles(self, queue: ShardedQueue, *, is_idle: bool) -> bool:
        """Let the marks of the queue follow the lowest position, now and then; return whether they have moved."""
        is_due = is_idle or self._clock.monotonic() >= self._settled + _SETTLE
        if not (is_due and queue.is_in_log and queue.settled_seq > queue.stands.consumed.seq):
            return False
        self._settled = self._clock.monotonic()
        with writing_briefly(self._engine) as connection:
            if shard_upkeep.settle(connection, queue.queue_id, queue.stands, queue.settled_seq):
                shard_marks.forget_changes(connection, queue.queue_id, queue.changes, queue.settled_seq)
        return True

    def _balances(self, queue: ShardedQueue) -> bool:
        """Look, now and then, for better owners of the hottest slots of an adaptive partitioner."""
        is_due = self._clock.monotonic() >= self._balanced + _BALANCE
        if not is_due or (queue.view is not None and not queue.view.changes[-1].map.adapts):
            return False
        self._balanced = self._clock.monotonic()
        return balance(self._engine, self._queue.client)

    def _adopts(self, queue: ShardedQueue) -> bool:
        newest = queue.newest
        if queue.view is not None and not (
            queue.is_in_log and shard_upkeep.may_adopt(queue.stands.consumed, queue.changes, newest)
        ):
            return False
        with writing(self._engine) as connection:
            new = stored_shard_maps.newest(connection, self._queue.client)
            if new is None or (queue.view is None and new.shards == 1 and not self._outwaits(connection, queue)):
                return False
            shard_upkeep.adopt(connection, queue.queue_id, self._lease, new)
        return True

    def _outwaits(self, connection: Connection, queue: ShardedQueue) -> bool:
        """Return whether a queue without shards needs one again, because other sources have theirs for long.

        A refused entry of another source may keep the client sharded without end.
        """
        if next_kind(queue.stands) is None:
            self._rested = self._clock.monotonic()
            return False
        is_late = self._clock.monotonic() >= self._rested + _PATIENCE
        return is_late and shard_marks.hold_others(connection, self._queue.client, queue.queue_id)

    def _retires(self, queue: ShardedQueue) -> bool:
        """Remove the shards that have nothing left to deliver; end sharding with the last but one."""
        if queue.view is None:
            return False
        leavers = queue.view.leavers(row.shard for row in queue.rows)
        gone = [row for row in queue.rows if row.shard in leavers]
        if gone:
            with writing_briefly(self._engine) as connection:
                shard_marks.remove(connection, queue.queue_id, gone)
            return True
        if not queue.view.is_single or queue.changes[-1].version != queue.newest:
            return False
        if queue.rows[0].seq != queue.stands.consumed.seq:
            return False
        with writing(self._engine) as connection:
            # One shard is enough to go on while another source cannot end yet.
            if shard_marks.most_shards(connection, self._queue.client, beside=queue.queue_id) > 1:
                return False
            shard_upkeep.end_shards(connection, queue.queue_id, self._lease, queue.stands, queue.rows[0])
        return True
