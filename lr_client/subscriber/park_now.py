"""Put the source transaction that blocks a queue aside, although the subscription does not park."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Engine

from lr_client.subscriber.delivery import Delivery, Superseded
from lr_client.subscriber.listener import RoutingQueueListener
from lr_client.subscriber.shard_delivery import ShardDelivery
from lr_client.subscriber.shard_steps import KnownMaps, next_shard_step, read_shards
from lr_client.subscriber.steps import DeliveryStep, Forgotten, Kind, next_step
from queues.database import actions, dialects, leases
from queues.database.transactions import is_lock_timeout, reading, writing
from queues.errors import OwnershipLostError, StoreUnavailableError, UsageError
from queues.names import ClientName, SiteId
from queues.receive.batches import BatchLimits
from queues.receive.blocked import BlockedQueue, blocked_one
from queues.receive.consumer_marks import subscriber_lease
from queues.receive.kept_blocks import KeptBlocks

#: The tries against a subscriber that goes on at the same moment.
_TRIES: Final = 10
_LIMITS: Final = BatchLimits(1, 1)


@dataclass(frozen=True, slots=True)
class ParkedNow:
    """The source transaction that was parked: the first number, and the number of entries."""

    queue: str
    sequence: int
    entries: int
    error_class: str

    def words(self) -> str:
        """Tell it in a sentence."""
        noun = "entry" if self.entries == 1 else "entries"
        return f"the transaction at {self.sequence:,} of {self.queue} is parked ({self.entries:,} {noun})"


def park_now(
    engine: Engine,
    client: ClientName,
    source: SiteId,
    *,
    shard: int | None = None,
    seq: int | None = None,
    person: str,
    seconds: int = 10,
) -> ParkedNow:
    """Park the source transaction that blocks a queue, and store the action of *person* in the same transaction.

    With *seq*, only the entry at that number is parked, because the queue may have gone on.

    A running subscriber goes on behind that transaction. The present call of the listener ends before. On PostgreSQL
    the function waits for that at most about *seconds*. The marks move by the rules of every delivery, so no entry is
    lost or applied twice.

    Raises `UsageError` if no entry blocks the queue, another one than that at *seq*, or none that can be parked. Raises
    `StoreUnavailableError` if the listener's call does not end in time.
    """
    for _ in range(_TRIES):
        found = blocked_one(engine, client, source, shard)
        if seq is not None and found.failure.seq != seq:
            raise UsageError(
                f"the entry at {seq:,} of {found.name} blocks no more, but the one at {found.failure.seq:,} does: "
                "look at that one first"
            )
        try:
            return _park(engine, found, person, seconds)
        except (Superseded, OwnershipLostError):
            continue
        except StoreUnavailableError as error:
            if not is_lock_timeout(error):
                raise
            raise StoreUnavailableError(
                f"the listener has worked on the entry of {found.name} for {seconds} s: try again once its call ends"
            ) from error
    raise StoreUnavailableError(f"the subscriber of {found.name} went on at the same moment: try again")


def _park(engine: Engine, found: BlockedQueue, person: str, seconds: int) -> ParkedNow:
    delivery, step = _delivery(engine, found), _blocking(engine, found)
    done = ParkedNow(found.name, step.first, len(step.rows), found.failure.error_class)
    with writing(engine) as connection:
        dialects.of(connection).limit_lock_wait(connection, seconds)
        delivery.park_within(connection, step, found.failure)
        actions.note(connection, person, "park now", done.words())
    return done


def _delivery(engine: Engine, found: BlockedQueue) -> Delivery:
    """Return a delivery under the last lease of the subscriber; a later acquisition fences it."""
    held = leases.holder(engine, subscriber_lease(found.queue.client, found.shard))
    if held is None:
        raise Superseded
    if found.shard is None:
        return Delivery(engine, _Unused(), found.queue, held.lease)
    return ShardDelivery(engine, _Unused(), found.queue, held.lease, shard=found.shard)


def _blocking(engine: Engine, found: BlockedQueue) -> DeliveryStep:
    """Return the step that has failed; raise `Superseded` if the subscriber has gone on."""
    try:
        step = _next(engine, found)
    except Forgotten:
        step = None
    if step is not None and step.kind is Kind.RETRY:
        raise UsageError(f"a retry of a parked transaction comes first in {found.name}: wait for it, or discard it")
    if step is not None and (not step.rows or step.incomplete) and step.first == found.failure.seq:
        raise UsageError(
            f"no entry blocks {found.name}, but {step.kind.name.lower().replace('_', ' ')}: mend the listener"
        )
    if step is None or step.first != found.failure.seq:
        raise Superseded
    return step


def _next(engine: Engine, found: BlockedQueue) -> DeliveryStep | None:
    queue = found.queue
    with reading(engine, snapshot=True) as connection:
        if found.shard is None:
            return next_step(connection, queue.queue_id, _LIMITS, KeptBlocks(), one=True)
        sharded = read_shards(connection, queue.queue_id, queue.client, KnownMaps(queue.client))
        if sharded is None:
            return None
        return next_shard_step(connection, sharded, found.shard, _LIMITS, KeptBlocks(), one=True)


class _Unused(RoutingQueueListener):
    """The listener of a delivery that only parks; it refuses every call."""

    client_name = ""

    def process_updates_in_snapshot_sync(self, *_: object) -> bool:
        """Refuse."""
        return False

    def process_updates_in_log_entry_sync(self, *_: object) -> bool:
        """Refuse."""
        return False
