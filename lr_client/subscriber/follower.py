"""Follow one receive queue step by step: wait while it is empty, retry a step that fails."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from discovery.registry import ReceiveQueue
from lr_client.subscriber.callbacks import undoes
from lr_client.subscriber.delivery import Delivery, Superseded
from lr_client.subscriber.listener import RoutingQueueListener
from lr_client.subscriber.observer import DeliveryObserver
from lr_client.subscriber.options import OnFailure
from lr_client.subscriber.sleepers import Sleeper
from lr_client.subscriber.steps import DeliveryStep, Forgotten, Kind, next_step
from lr_client.subscriber.unpacker import Unpacker
from queues.backoff import Backoff
from queues.clock import Clock, jittered
from queues.database.leases import Lease
from queues.database.transactions import reading, writing_briefly
from queues.error_facts import facts_of
from queues.errors import LrqError, OwnershipLostError, StoreUnavailableError
from queues.receive import consumer_marks, failures, parked_retries
from queues.receive.batches import BatchLimits
from queues.receive.failures import Failure
from queues.receive.kept_blocks import KeptBlocks
from queues.words import in_words

#: First wait before an idle queue is polled again, in seconds; the wait doubles up to `Options.idle`.
QUICK: Final = 0.005

#: The `seq` of a failure before any row was read.
_UNREAD: Final = 0
#: A step is stuck once errors of the database have stopped it for these seconds, so often in a row.
STUCK_SECONDS: Final = 5.0
_STUCK_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a subscription; times in seconds. See `lr_client.tracing` for `trace`."""

    limits: BatchLimits
    on_failure: OnFailure
    max_tries: int
    backoff: float
    max_backoff: float
    idle: float
    quick: float = QUICK
    trace: bool = True
    observer: DeliveryObserver = field(default_factory=DeliveryObserver)

    def delay(self, tries: int) -> float:
        """Return the seconds to wait after *tries* failures in a row."""
        first = min(self.backoff, self.max_backoff)
        return jittered(Backoff(first, self.max_backoff).delay_seconds(tries))


class Follower:
    """Follows one queue under one lease, until `stopping` is set or the lease is lost."""

    #: The shard that the follower delivers; None for a queue without shards.
    _shard: int | None = None

    def __init__(
        self,
        engine: Engine,
        listener: RoutingQueueListener,
        queue: ReceiveQueue,
        lease: Lease,
        options: Options,
        *,
        stopping: threading.Event,
        report: Callable[[str, Exception], None],
        recovered: Callable[[str], None] = lambda _source: None,
        sleeper: Sleeper,
        unpacker: Unpacker,
        clock: Clock,
    ) -> None:
        """Prepare; *report* is called with (source, error) for every error, *recovered* after the next success."""
        self._engine = engine
        self._queue = queue
        self._options = options
        self._delivery = self._deliveries(engine, listener, queue, lease, options)
        self._undoes = undoes(listener)
        self._stopping = stopping
        self._report = report
        self._recovered = recovered
        self._clock = clock
        self._sleeper = sleeper
        self._kept = KeptBlocks()
        self._unpacker = unpacker
        self._idle = options.quick
        self._enrolled = False
        self._failure: Failure | None = None
        # The step of the present turn, and the recorded failure of a step that errors of the database stop.
        self._step: DeliveryStep | None = None
        self._stuck: Failure | None = None
        self._troubled_since = 0.0
        # The kind and the end of a refused batch, whose source transactions are then delivered one by one.
        self._singly: tuple[Kind, int] | None = None

    def _deliveries(
        self, engine: Engine, listener: RoutingQueueListener, queue: ReceiveQueue, lease: Lease, options: Options
    ) -> Delivery:
        return Delivery(engine, listener, queue, lease, trace=options.trace)

    def run(self) -> None:
        """Follow the queue until it is forgotten; raise `OwnershipLostError` when another subscriber has taken over."""
        troubles = 0
        while not self._stopping.is_set():
            try:
                pause = self._turn()
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
            self._forget_failure()
            return None
        self._step = step
        if step.kind is Kind.LOG_ENTRIES:
            self._unpacker.begin(self._kept.packed_after(step.end))
        began = self._clock.monotonic()
        try:
            self._delivery.carry_out(step, recovers=self._has_failure and step.kind is not Kind.RETRY)
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
        with reading(self._engine, snapshot=True) as connection:
            one = self._one_by_one()
            return next_step(connection, self._queue.queue_id, self._options.limits, self._kept, one=one)

    def _record(self, error: Exception, troubles: int) -> None:
        """Store the failure of a step that did not reach the listener, so that the status shows it."""
        if isinstance(error, StoreUnavailableError):
            lasts = self._clock.monotonic() - self._troubled_since >= STUCK_SECONDS
            if self._step is not None and lasts and troubles >= _STUCK_TRIES:
                with suppress(LrqError, SQLAlchemyError):
                    self._record_stuck(self._step, error, troubles)
            return
        known = self._failure
        seq, tries = (known.seq, max(known.tries, troubles)) if known else (_UNREAD, troubles)
        self._failure = failures.again(known, seq, facts_of(error, in_words(error)))._replace(tries=tries)
        with suppress(LrqError, SQLAlchemyError):
            failures.record(self._engine, self._queue.queue_id, self._failure, self._shard)

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
            failure = failures.again(self._stuck or self._failure, step.first, facts)._replace(tries=troubles)
            failures.record(self._engine, self._queue.queue_id, failure, self._shard)
            self._stuck = failure

    @property
    def _has_failure(self) -> bool:
        return self._failure is not None or self._stuck is not None

    def _forget_failure(self) -> None:
        """Clear the failure of a queue in which nothing is left to deliver."""
        if self._has_failure:
            with writing_briefly(self._engine) as connection:
                failures.clear(connection, self._queue.queue_id, self._shard)
            self._failure = self._stuck = None

    def _enroll(self) -> None:
        consumer_marks.enroll(self._engine, self._queue.queue_id, undoes=self._undoes)
        with reading(self._engine) as connection:
            self._failure = failures.last(connection, self._queue.queue_id, self._shard)
        self._enrolled = True

    def _sleep(self) -> None:
        """Pause until the next look at an idle queue, or until a wakeup."""
        if self._sleeper.is_notified:
            self._idle = self._options.idle
        pause = self._idle
        self._idle = min(2 * pause, self._options.idle)
        self._sleeper.sleep(pause)

    def _one_by_one(self) -> bool:
        return self._has_failure or self._singly is not None

    def _done(self, step: DeliveryStep) -> float | None:
        self._kept.moved(step.version)
        if step.kind is Kind.RETRY:
            return 0
        self._failure = self._stuck = None
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
        failure = self._failure = failures.again(self._failure, step.first, facts)
        self._report(self._queue.source, error)
        if self._parks(step, failure.tries):
            self._delivery.park(step, failure)
            return self._done(step)
        failures.record(self._engine, self._queue.queue_id, failure, self._shard)
        return self._options.delay(failure.tries)

    def _parks(self, step: DeliveryStep, tries: int) -> bool:
        parkable = bool(step.rows) and not step.incomplete
        return self._options.on_failure == "park" and parkable and tries >= self._options.max_tries
