"""Follow one receive queue step by step: wait while it is empty, retry a step that fails."""

from contextlib import suppress
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from lr_client.subscriber.brief_steps import brief_step
from lr_client.subscriber.callbacks import undoes
from lr_client.subscriber.delivery import Delivery, Superseded
from lr_client.subscriber.followed_queue import FollowedQueue
from lr_client.subscriber.recorded_failure import RecordedFailure
from lr_client.subscriber.steps import DeliveryStep, Forgotten, Kind, next_step, step_after
from queues.database.transactions import reading
from queues.error_facts import facts_of
from queues.errors import LrqError, OwnershipLostError, StoreUnavailableError
from queues.receive import consumer_marks, parked_retries
from queues.receive.brief_look import look
from queues.receive.consumer_marks import Consumed
from queues.receive.kept_blocks import KeptBlocks
from queues.words import in_words

#: A step is stuck once errors of the database have stopped it for these seconds, so often in a row.
STUCK_SECONDS: Final = 5.0
_STUCK_TRIES: Final = 3
#: The seconds for which steps come from blocks in memory, without a look at the queue for requested retries.
_LOOK_SECONDS: Final = 0.1


class Follower:
    """Follows one queue under one lease, until `stopping` is set or the lease is lost."""

    def __init__(self, followed: FollowedQueue, delivery: Delivery | None = None, *, shard: int | None = None) -> None:
        """Prepare to follow the queue, or only one *shard* of it with a *delivery* of that shard."""
        self._engine = followed.engine
        self._queue = followed.queue
        self._options = followed.options
        self._delivery = delivery or Delivery(
            followed.engine, followed.listener, followed.queue, followed.lease, trace=followed.options.trace
        )
        self._undoes = undoes(followed.listener)
        self._stopping = followed.stopping
        self._report = followed.report
        self._recovered = followed.recovered
        self._succeeded = followed.succeeded
        self._clock = followed.clock
        self._sleeper = followed.sleeper
        self._unpacker = followed.unpacker
        self._kept = KeptBlocks()
        self._idle = followed.options.quick
        self._enrolled = False
        self._failure = RecordedFailure(followed.engine, followed.queue.queue_id, shard)
        # The step of the present turn, and the time of the first of the present troubles.
        self._step: DeliveryStep | None = None
        self._troubled_since = 0.0
        # The marks in the log after the last step, and their version. The step itself would hold a batch in memory.
        self._stands: tuple[Consumed, int] | None = None
        # The time of the last look at the queue, and whether a brief one is enough after it.
        self._looked = 0.0
        self._is_light = True
        # The kind and the end of a refused batch, whose source transactions are then delivered one by one.
        self._singly: tuple[Kind, int] | None = None

    def run(self) -> None:
        """Follow the queue until it is forgotten; raise `OwnershipLostError` when another subscriber has taken over."""
        troubles = 0
        while not self._stopping.is_set():
            try:
                pause = self._turn()
                if troubles:
                    self._succeeded()
                troubles = 0
            except OwnershipLostError:
                raise
            except Superseded:
                pause = None
            except Forgotten:
                return
            except Exception as error:  # noqa: BLE001 - reported; the queue is unchanged and is tried again
                troubles += 1
                if troubles == 1:
                    self._troubled_since = self._clock.monotonic()
                pause = self._options.delay(troubles)
                self._report(self._queue.source, error)
                self._record(error, troubles)
            if pause is None:
                self._sleep()
            elif pause:
                self._clock.wait(self._stopping, pause)

    def _turn(self) -> float | None:
        """Make one step; return the seconds to wait before the next step, or None if the queue is idle."""
        self._step = None
        if not self._enrolled:
            self._enroll()
        step = self._next()
        if step is None:
            self._failure.clear()
            return None
        self._step = step
        if step.kind is Kind.LOG_ENTRIES:
            self._unpacker.begin(self._kept.packed_after(step.end))
        began = self._clock.monotonic()
        try:
            self._delivery.carry_out(step, recovers=self._failure.exists and step.kind is not Kind.RETRY)
        except (Superseded, OwnershipLostError, StoreUnavailableError):
            raise
        except Exception as error:  # noqa: BLE001 - recorded and reported
            return self._refused(step, error)
        if step.rows:
            self._observe(step, self._clock.monotonic() - began)
        return self._done(step)

    def _observe(self, step: DeliveryStep, seconds: float) -> None:
        self._options.observer.applied(self._queue.source, len(step.rows), seconds)
        if not step.of_snapshot:
            self._options.observer.delays(self._queue.source, step.delays(self._clock.now_us()))

    def _next(self) -> DeliveryStep | None:
        queue_id, limits, one = self._queue.queue_id, self._options.limits, self._one_by_one()
        stands, self._stands = self._stands, None
        now = self._clock.monotonic()
        if stands is not None and not one and now < self._looked + _LOOK_SECONDS:
            step = step_after(*stands, queue_id, limits, self._kept)
            if step is not None:
                return step
        self._looked = now
        if self._is_light:
            with reading(self._engine, snapshot=True, rewritten=False) as connection:
                found = look(connection, queue_id, self._kept.covered)
            step, self._is_light = brief_step(found, queue_id, limits, self._kept, one=one)
            if self._is_light:
                return step
        with reading(self._engine, snapshot=True, rewritten=False) as connection:
            step = next_step(connection, queue_id, limits, self._kept, one=one)
        self._is_light = step is None or (step.kind is Kind.LOG_ENTRIES and self._kept.has_all)
        return step

    def _record(self, error: Exception, troubles: int) -> None:
        """Store the failure of a step that did not reach the listener, so that the status shows it."""
        if isinstance(error, StoreUnavailableError):
            lasts = self._clock.monotonic() - self._troubled_since >= STUCK_SECONDS
            if self._step is not None and lasts and troubles >= _STUCK_TRIES:
                with suppress(LrqError, SQLAlchemyError):
                    self._record_stuck(self._step, error, troubles)
            return
        with suppress(LrqError, SQLAlchemyError):
            self._failure.troubled(facts_of(error, in_words(error)), troubles)

    def _record_stuck(self, step: DeliveryStep, error: StoreUnavailableError, troubles: int) -> None:
        """Store that errors of the database, such as its time-outs, stop one step again and again.

        Such an error is no refusal by the listener, so the step is never parked for it. A retry is parked again,
        because all other entries wait behind it. A database that cannot be used at all stores nothing.
        """
        facts = facts_of(error, in_words(error))
        if step.retry is not None:
            parked_retries.refuse(self._engine, step.retry, facts)
        elif step.divisible:
            self._singly = (step.kind, step.end)
        else:
            self._failure.stopped(step.first, facts, troubles)

    def _enroll(self) -> None:
        consumer_marks.enroll(self._engine, self._queue.queue_id, undoes=self._undoes)
        self._failure.load()
        self._enrolled = True

    def _sleep(self) -> None:
        """Pause until the next look at an idle queue, or until a wakeup."""
        pause = self._idle
        self._idle = min(2 * pause, self._options.idle)
        self._sleeper.sleep(self._notified_pause() if self._sleeper.is_notified else pause)

    def _notified_pause(self) -> float:
        """Return the pause of an idle follower that is woken once its queue has new work."""
        return max(self._options.idle, self._options.notified)

    def _one_by_one(self) -> bool:
        return self._failure.exists or self._singly is not None

    def _done(self, step: DeliveryStep) -> float | None:
        self._kept.moved(step.version)
        self._stands = (step.to, step.version + 1) if step.kind is Kind.LOG_ENTRIES else None
        if step.kind is Kind.RETRY:
            return 0
        self._failure.forget()
        if self._singly and (step.kind is not self._singly[0] or step.end >= self._singly[1]):
            self._singly = None
        if self._singly is None:
            self._recovered(self._queue.source)
        if step.kind is Kind.LOG_ENTRIES and not step.rows:
            return None
        self._idle = self._options.quick
        self._sleeper.delivered()
        return 0

    def _refused(self, step: DeliveryStep, error: Exception) -> float | None:
        """Record the failure, and divide, park or retry the step; return the same as `_turn`."""
        facts = facts_of(error)
        if step.retry is not None:
            parked_retries.refuse(self._engine, step.retry, facts)
            self._report(self._queue.source, error)
            return 0
        if step.divisible:
            # One-by-one delivery finds the transaction that fails.
            self._singly = (step.kind, step.end)
            self._report(self._queue.source, error)
            return 0
        failure = self._failure.refused(step.first, facts)
        self._report(self._queue.source, error)
        if self._parks(step, failure.tries):
            self._delivery.park(step, failure)
            return self._done(step)
        self._failure.store(failure)
        return self._options.delay(failure.tries)

    def _parks(self, step: DeliveryStep, tries: int) -> bool:
        parkable = bool(step.rows) and not step.incomplete
        return self._options.on_failure == "park" and parkable and tries >= self._options.max_tries
