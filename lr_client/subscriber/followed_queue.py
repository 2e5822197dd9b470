"""One receive queue under one lease, with all that a follower of it works with."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Engine

from discovery.registry import ReceiveQueue
from lr_client.subscriber.listener import RoutingQueueListener
from lr_client.subscriber.observer import DeliveryObserver
from lr_client.subscriber.options import OnFailure
from lr_client.subscriber.sleepers import Sleeper
from lr_client.subscriber.unpacker import Unpacker
from queues.backoff import Backoff
from queues.clock import Clock, jittered
from queues.database.leases import Lease
from queues.receive.batches import BatchLimits

#: First wait before an idle queue is polled again, in seconds; the wait doubles up to `Options.idle`.
QUICK: Final = 0.005


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a subscription; times in seconds. See `lr_client.tracing` for `trace`.

    `idle` is the longest wait between two polls of an idle queue. Where wakeups come, the wait
    is `notified`, if that is longer.
    """

    limits: BatchLimits
    on_failure: OnFailure
    max_tries: int
    backoff: float
    max_backoff: float
    idle: float
    quick: float = QUICK
    notified: float = 0.0
    trace: bool = True
    observer: DeliveryObserver = field(default_factory=DeliveryObserver)

    def delay(self, tries: int) -> float:
        """Return the seconds to wait after *tries* failures in a row."""
        first = min(self.backoff, self.max_backoff)
        return jittered(Backoff(first, self.max_backoff).delay_seconds(tries))


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedQueue:
    """A queue that is delivered to `listener` until `stopping` is set, or another subscriber takes over `lease`.

    `report` is called with (source, error) for every error, and `recovered` with the source after the next success.
    `succeeded` is called after a step behind such an error that the database has carried out.
    """

    engine: Engine
    listener: RoutingQueueListener
    queue: ReceiveQueue
    lease: Lease
    options: Options
    stopping: threading.Event
    report: Callable[[str, Exception], None]
    recovered: Callable[[str], None] = lambda _source: None
    succeeded: Callable[[], None] = lambda: None
    sleeper: Sleeper
    unpacker: Unpacker
    clock: Clock
