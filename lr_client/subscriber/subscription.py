"""Subscribe to the entries that other sites send for a client (docs/design.md, "Applications")."""

import sys
import threading
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Final, Self

from sqlalchemy import Connection, Engine

from discovery.ownership import Ownership, OwnershipState
from lr_client.subscriber.callbacks import require_listener
from lr_client.subscriber.error_reports import ErrorReports
from lr_client.subscriber.followed_queue import Options
from lr_client.subscriber.function_listener import FunctionListener
from lr_client.subscriber.listener import RoutingQueueListener
from lr_client.subscriber.listener_session import require_transactions
from lr_client.subscriber.observer import DeliveryObserver
from lr_client.subscriber.options import OnFailure, chosen_options
from lr_client.subscriber.queue_threads import QueueThreads, QueueWork
from lr_client.subscriber.shard_follower import Nudges
from lr_client.subscriber.shard_owners import ShardOwners, is_sharded, store_shards
from lr_client.subscriber.unpacker import Unpacker
from queues import names
from queues.clock import SYSTEM_CLOCK, Clock
from queues.database import migrations
from queues.database.engine_check import require_engine
from queues.database.leases import Lease
from queues.database.transactions import reading
from queues.names import ClientName
from queues.receive import stored_shard_maps
from queues.receive.batches import BatchLimits
from queues.receive.consumer_marks import subscriber_lease

#: Longest wait between two polls of an idle queue, in seconds; and where wakeups come.
_IDLE: Final = 0.2
_NOTIFIED: Final = 1.0


def subscribe(
    engine: Engine,
    listener: RoutingQueueListener,
    *,
    poll_interval: float | None = None,
    on_failure: OnFailure | None = None,
    max_tries: int | None = None,
    backoff: float | None = None,
    max_backoff: float | None = None,
    max_batch_entries: int | None = None,
    max_batch_bytes: int | None = None,
    lease_ttl: float | None = None,
    trace: bool | None = None,
    shards: int | None = None,
    partitioner: str | None = None,
    observer: DeliveryObserver | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> "Subscription":
    """Follow every receive queue of the listener's client, including queues that are created later.

    The registry is polled for new queues every *poll_interval* seconds. Each call of the listener brings whole source
    transactions, at most *max_batch_entries* and *max_batch_bytes* together. A larger transaction comes alone.

    Refused entries come again after *backoff* seconds, a delay that doubles up to *max_backoff*. With `"block"` the
    queue waits until the listener accepts. With `"park"` the source transaction is set aside after *max_tries* (see
    `queues.receive.parked`).

    Of several subscribers of one client in one database, one works and the others stand by. Another one takes over
    when the owner has not renewed its lease for *lease_ttl* seconds.

    An option of None has the value that the decorator `listener` was given, or else the default. The defaults are
    *poll_interval* 1, *on_failure* "block", *max_tries* 5, *backoff* 0.05, *max_backoff* 10 and *lease_ttl* 10. A call
    has *max_batch_entries* 1000 and *max_batch_bytes* 4 MiB. *trace* is True, *shards* 1 and *partitioner* "hash".
    *observer* learns of each batch, for metrics.

    With *shards*, that many threads apply the entries of a source, each the keys of its shard. All subscriptions of the
    client share the shards. *partitioner* is "hash", "key", "modulo", "range(BOUND,…)", "adaptive" or the name
    of an installed one. The first subscription stores both; then `lrq subscribe shards` changes them (docs/shards.md).

    With *trace*, each call that brings entries has a consumer span of OpenTelemetry, if the application uses that.

    Raises:
        SetupError: the database has no lrq tables, or those of another version.
        NotInTransactionError: the engine commits every statement by itself.
        InvalidNameError: the listener's `client_name` is missing or malformed.
        UsageError: an option is out of range, or the engine is asynchronous or none. Also for a listener that is a
            class or an undecorated function, or whose method is `async def`, a generator or has other parameters.
        StoreUnavailableError: the database cannot be used now.

    Example:
        >>> with subscribe(engine, Apply()):
        ...     serve()
    """
    require_listener(listener)
    client = names.client_name(getattr(listener, "client_name", None))
    own = listener.options if isinstance(listener, FunctionListener) else {}
    given = {
        "poll_interval": poll_interval, "on_failure": on_failure, "max_tries": max_tries, "backoff": backoff,
        "max_backoff": max_backoff, "max_batch_entries": max_batch_entries, "max_batch_bytes": max_batch_bytes,
        "lease_ttl": lease_ttl, "trace": trace, "shards": shards, "partitioner": partitioner,
    }  # fmt: skip
    chosen = chosen_options(own, given)
    require_engine(engine, "subscribe")
    with reading(engine) as connection:
        migrations.require(connection)
        require_transactions(connection)
    store_shards(engine, client, chosen["shards"], chosen["partitioner"], is_told="shards" in own or shards is not None)
    options = Options(
        limits=BatchLimits(chosen["max_batch_entries"], chosen["max_batch_bytes"]),
        on_failure=chosen["on_failure"],
        max_tries=chosen["max_tries"],
        backoff=chosen["backoff"],
        max_backoff=chosen["max_backoff"],
        idle=min(chosen["poll_interval"], _IDLE),
        notified=min(chosen["poll_interval"], _NOTIFIED),
        trace=chosen["trace"],
        observer=observer or DeliveryObserver(),
    )
    subscription = Subscription(
        engine, listener, client, options, poll_interval=chosen["poll_interval"], ttl=chosen["lease_ttl"], clock=clock
    )
    subscription.start()
    return subscription


class Subscription:
    """A running subscription; call `close`, or use the object in a `with` statement.

    A thread of the subscription may end by an error of its own. Then the subscription releases the lease, so that
    another one begins, and stands by again after a rest. The log and `reason` name the error.
    """

    def __init__(
        self,
        engine: Engine,
        listener: RoutingQueueListener,
        client: ClientName,
        options: Options,
        *,
        poll_interval: float,
        ttl: float,
        clock: Clock,
    ) -> None:
        """Prepare without starting a thread; `start` begins the work."""
        self._engine = engine
        self._listener = listener
        self._client = client
        self._options = options
        self._poll_interval = poll_interval
        self._ttl = ttl
        self._clock = clock
        self._reports = ErrorReports(listener, client, options.observer, clock)
        self._nudges = Nudges()
        self._unpacker = Unpacker()
        self._switching = threading.Lock()
        self._is_closed = False
        self._owner: Ownership | ShardOwners = self._single()
        self._before: list[Ownership | ShardOwners] = []

    def start(self) -> None:
        """Start the thread that waits for the lease; with the lease, delivery begins."""
        if is_sharded(self._engine, self._client):
            self._owner = self._sharded()
        self._owner.start()

    @property
    def active(self) -> bool:
        """Whether this subscription delivers: it holds the lease, or that of a shard. The client's others stand by."""
        owner = self._owner
        return owner.active if isinstance(owner, ShardOwners) else owner.lease is not None

    @property
    def state(self) -> OwnershipState:
        """The relation to the lease: owner, standing by, or another state of `OwnershipState`."""
        return self._owner.state

    @property
    def reason(self) -> str:
        """The state in words: the owner of the lease, or the reason why this subscription stands by."""
        return self._owner.reason

    def close(self) -> None:
        """Wait for running listener calls, then release the lease so that another subscriber begins; idempotent.

        Inside a call of the listener, `close` returns at once, and the subscription ends after that call. While Python
        ends, `close` returns at once, too.
        """
        # `__del__` may run while Python ends. The threads stand still then.
        if sys.is_finalizing():
            return
        with self._switching:
            self._is_closed = True
            owners = [*self._before, self._owner]
        for owner in owners:
            owner.stop(wait=not self._reports.in_listener)
        self._unpacker.close()

    def __enter__(self) -> Self:
        """Return the subscription."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the subscription."""
        self.close()

    def _single(self) -> Ownership:
        """Return the owner of the whole client, which ends as soon as the client has several shards."""

        def begin(lease: Lease) -> None:
            if is_sharded(self._engine, self._client):
                self._switch(ownership, self._sharded)
            else:
                work.begin(lease)

        def watch(connection: Connection) -> None:
            newest = stored_shard_maps.newest(connection, self._client)
            if newest is not None and newest.shards > 1:
                self._switch(ownership, self._sharded)

        work = QueueWork(
            lambda lease: self._threads(lease, give_up=ownership.give_up, on_poll=watch), self._reports.report
        )
        ownership = Ownership(
            self._engine,
            subscriber_lease(self._client),
            on_acquired=begin,
            on_lost=work.end,
            on_failed=partial(self._reports.report, "", work="lease"),
            on_recovered=partial(self._reports.succeeded, "lease"),
            ttl=self._ttl,
            clock=self._clock,
        )
        return ownership

    def _sharded(self) -> ShardOwners:
        """Return the owner of a share of the shards, which ends as soon as the client has none."""

        def new_work(shard: int, give_up: Callable[[Exception], None]) -> QueueWork:
            return QueueWork(lambda lease: self._threads(lease, give_up=give_up, shard=shard), self._reports.report)

        owners = ShardOwners(
            self._engine,
            self._client,
            new_work=new_work,
            on_unsharded=lambda: self._switch(owners, self._single),
            on_error=partial(self._reports.report, "", work="shards"),
            on_success=partial(self._reports.succeeded, "shards"),
            ttl=self._ttl,
            clock=self._clock,
        )
        return owners

    def _switch(self, before: Ownership | ShardOwners, make: Callable[[], Ownership | ShardOwners]) -> None:
        """Go on with another owner; the one *before* ends after its running calls."""
        with self._switching:
            if self._is_closed or self._owner is not before:
                return
            owner = make()
            owner.start()  # where no thread can begin now, a later call tries again
            self._before = [each for each in self._before if each.state is not OwnershipState.STOPPED]
            self._before.append(before)
            self._owner = owner
        before.stop(wait=False)

    def _threads(
        self,
        lease: Lease,
        *,
        give_up: Callable[[Exception], None],
        shard: int | None = None,
        on_poll: Callable[[Connection], None] = lambda _connection: None,
    ) -> QueueThreads:
        return QueueThreads(
            self._engine,
            self._listener,
            self._client,
            lease,
            self._options,
            poll_interval=self._poll_interval,
            reports=self._reports,
            give_up=give_up,
            unpacker=self._unpacker,
            clock=self._clock,
            shard=shard,
            nudges=self._nudges,
            on_poll=on_poll,
        )
