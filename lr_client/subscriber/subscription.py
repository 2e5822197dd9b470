"""Subscribe to the entries that other sites send for a client (docs/design.md, "Applications")."""

from types import TracebackType
from typing import Final, Self

from sqlalchemy import Engine

from discovery.ownership import TTL, Ownership
from lr_client.objects import require_methods, require_plain
from lr_client.subscriber.error_reports import ErrorReports
from lr_client.subscriber.follower import OnFailure, Options
from lr_client.subscriber.listener import CALLBACKS, RoutingQueueListener
from lr_client.subscriber.listener_session import require_transactions
from lr_client.subscriber.queue_threads import QueueThreads
from queues import names
from queues.clock import SYSTEM_CLOCK, Clock
from queues.database import migrations
from queues.database.engine_check import require_engine
from queues.database.leases import Lease
from queues.database.transactions import reading
from queues.errors import UsageError
from queues.names import ClientName
from queues.receive.batches import BatchLimits
from queues.receive.consumer_marks import subscriber_lease

#: Longest wait between two polls of an idle queue, in seconds.
_IDLE: Final = 0.2


def subscribe(
    engine: Engine,
    listener: RoutingQueueListener,
    *,
    poll_interval: float = 1.0,
    on_failure: OnFailure = "block",
    max_tries: int = 5,
    backoff: float = 0.05,
    max_backoff: float = 10.0,
    max_batch_entries: int = 1000,
    max_batch_bytes: int = 4 * 1024 * 1024,
    lease_ttl: float = TTL,
    trace: bool = True,
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

    With *trace*, each call that brings entries has a consumer span of OpenTelemetry, if the application uses that.

    Raises:
        SetupError: the database has no lrq tables, or those of another version.
        NotInTransactionError: the engine commits every statement by itself.
        InvalidNameError: the listener's `client_name` is missing or malformed.
        UsageError: an option is out of range, the engine is asynchronous or none, or the listener is a class or has an
            `async def` method.
        StoreUnavailableError: the database cannot be used now.

    Example:
        >>> with subscribe(engine, Apply()):
        ...     serve()
    """
    require_methods(listener, CALLBACKS, "listener")
    require_plain(getattr(listener, "on_rollback", None), f"{type(listener).__name__}.on_rollback")
    client = names.client_name(getattr(listener, "client_name", None))
    if on_failure not in ("block", "park"):
        raise UsageError(f"on_failure is {on_failure!r}: choose 'block' or 'park'")
    positive = (poll_interval, max_tries, backoff, max_backoff, max_batch_entries, max_batch_bytes, lease_ttl)
    if min(positive) <= 0:
        raise UsageError("intervals, limits and numbers of tries must be greater than zero")
    require_engine(engine, "subscribe")
    with reading(engine) as connection:
        migrations.require(connection)
        require_transactions(connection)
    options = Options(
        limits=BatchLimits(max_batch_entries, max_batch_bytes),
        on_failure=on_failure,
        max_tries=max_tries,
        backoff=backoff,
        max_backoff=max_backoff,
        idle=min(poll_interval, _IDLE),
        trace=trace,
    )
    subscription = Subscription(
        engine, listener, client, options, poll_interval=poll_interval, ttl=lease_ttl, clock=clock
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
        self._reports = ErrorReports(listener, client)
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
