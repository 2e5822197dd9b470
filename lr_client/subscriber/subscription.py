"""Subscribe to the entries that other sites send for a client (docs/design.md, "Applications")."""

from types import TracebackType
from typing import Final, Self

from sqlalchemy import Engine

from discovery.ownership import Ownership, OwnershipState
from lr_client.subscriber.callbacks import require_listener
from lr_client.subscriber.error_reports import ErrorReports
from lr_client.subscriber.follower import Options
from lr_client.subscriber.function_listener import FunctionListener
from lr_client.subscriber.listener import RoutingQueueListener
from lr_client.subscriber.listener_session import require_transactions
from lr_client.subscriber.observer import DeliveryObserver
from lr_client.subscriber.options import OnFailure, chosen_options
from lr_client.subscriber.queue_threads import QueueThreads
from queues import names
from queues.clock import SYSTEM_CLOCK, Clock
from queues.database import migrations
from queues.database.engine_check import require_engine
from queues.database.leases import Lease
from queues.database.transactions import reading
from queues.names import ClientName
from queues.receive.batches import BatchLimits
from queues.receive.consumer_marks import subscriber_lease

#: Longest wait between two polls of an idle queue, in seconds.
_IDLE: Final = 0.2


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

    An option of None has the value that the decorator `listener` was given, or else the default: *poll_interval* 1,
    *on_failure* "block", *max_tries* 5, *backoff* 0.05, *max_backoff* 10, *max_batch_entries* 1000, *max_batch_bytes*
    4 MiB, *lease_ttl* 10. *observer* learns of each batch, for metrics.

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
        "lease_ttl": lease_ttl,
    }  # fmt: skip
    chosen = chosen_options(own, given)
    require_engine(engine, "subscribe")
    with reading(engine) as connection:
        migrations.require(connection)
        require_transactions(connection)
    options = Options(
        limits=BatchLimits(chosen["max_batch_entries"], chosen["max_batch_bytes"]),
        on_failure=chosen["on_failure"],
        max_tries=chosen["max_tries"],
        backoff=chosen["backoff"],
        max_backoff=chosen["max_backoff"],
        idle=min(chosen["poll_interval"], _IDLE),
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
        self._clock = clock
        self._threads: QueueThreads | None = None
        self._reports = ErrorReports(listener, client, options.observer)
        self._ownership = Ownership(
            engine, subscriber_lease(client), on_acquired=self._begin, on_lost=self._end, ttl=ttl, clock=clock
        )

    def start(self) -> None:
        """Start the thread that waits for the lease; with the lease, delivery begins."""
        self._ownership.start()

    @property
    def active(self) -> bool:
        """Whether this subscription holds the lease and delivers; the client's other subscriptions stand by."""
        return self._ownership.lease is not None

    @property
    def state(self) -> OwnershipState:
        """The relation to the lease: owner, standing by, or another state of `OwnershipState`."""
        return self._ownership.state

    @property
    def reason(self) -> str:
        """The state in words: the owner of the lease, or the reason why this subscription stands by."""
        return self._ownership.reason

    def close(self) -> None:
        """Wait for running listener calls, then release the lease so that another subscriber begins; idempotent.

        Inside a call of the listener, `close` returns at once, and the subscription ends after that call.
        """
        self._ownership.stop(wait=not self._reports.in_listener)

    def __enter__(self) -> Self:
        """Return the subscription."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the subscription."""
        self.close()

    def _begin(self, lease: Lease) -> None:
        self._threads = QueueThreads(
            self._engine,
            self._listener,
            self._client,
            lease,
            self._options,
            poll_interval=self._poll_interval,
            reports=self._reports,
            give_up=self._ownership.give_up,
            clock=self._clock,
        )
        self._threads.start()

    def _end(self, error: Exception | None) -> None:
        if self._threads is not None:
            self._threads.stop()
            self._threads = None
        if error is not None:
            self._reports.report("", error)
