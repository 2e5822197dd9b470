"""Subscribing to what other sites send for a client (seed 004, "LR routing queues (receiver) discovery")."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Final, Self

from sqlalchemy import Engine

from discovery.ownership import TTL, Ownership
from discovery.registry import ReceiveQueue
from lr_client.crew import Crew
from lr_client.following import Follower, OnFailure, Options
from lr_client.listener import RoutingQueueListener
from lr_client.listening import require_transactions
from queues import migrate, names
from queues.clock import SYSTEM_CLOCK, Clock
from queues.errors import OwnershipLostError, UsageError
from queues.leases import Lease
from queues.logs import logger
from queues.names import ClientName
from queues.receive.failures import describe
from queues.receive.upcoming import Limits
from queues.transactions import reading

_log = logger("lrq.subscriber")

#: Longest wait between two looks at an idle queue, in seconds.
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
    clock: Clock = SYSTEM_CLOCK,
) -> "Subscription":
    """Follow every receive queue of the listener's client, those that are yet to come included.

    New queues are looked for every *poll_interval* seconds. A call of the listener brings whole source transactions
    of together at most *max_batch_entries* and *max_batch_bytes*; one that is larger comes alone. What the listener
    refuses comes again after *backoff* seconds, then twice as long each time up to *max_backoff*: for ever with
    `"block"`; with `"park"` the source transaction is set aside after *max_tries* (see `queues.receive.parked`).

    Of several subscribers of one client in one database, one works and the others stand by; one that is not heard of
    for *lease_ttl* seconds is replaced.

    Raises:
        SetupError: the database has no lrq tables, or those of another version.
        NotInTransactionError: the engine commits every statement by itself.
        InvalidNameError: the listener's `client_name` is none.
        UsageError: an option is out of range.
        StoreUnavailableError: the database cannot be used just now.

    Example:
        >>> with subscribe(engine, Apply()):
        ...     serve()
    """
    client = names.client_name(getattr(listener, "client_name", None))
    if on_failure not in ("block", "park"):
        raise UsageError(f"on_failure is {on_failure!r}: choose 'block' or 'park'")
    positive = (poll_interval, max_tries, backoff, max_backoff, max_batch_entries, max_batch_bytes, lease_ttl)
    if min(positive) <= 0:
        raise UsageError("intervals, limits and numbers of tries must be greater than zero")
    with reading(engine) as connection:
        migrate.require(connection)
        require_transactions(connection)
    options = Options(
        limits=Limits(max_batch_entries, max_batch_bytes),
        on_failure=on_failure,
        max_tries=max_tries,
        backoff=backoff,
        max_backoff=max_backoff,
        idle=min(poll_interval, _IDLE),
    )
    subscription = Subscription(
        engine, listener, client, options, poll_interval=poll_interval, ttl=lease_ttl, clock=clock
    )
    subscription.start()
    return subscription


def lease_name(client: ClientName) -> str:
    """Return the name of the lease that the working subscriber of *client* holds."""
    return f"subscriber/{client}"


class Subscription:
    """A running subscription; `close` it, or use it in a `with` statement."""

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
        """Prepare; `start` begins."""
        self._engine = engine
        self._listener = listener
        self._client = client
        self._options = options
        self._poll_interval = poll_interval
        self._clock = clock
        self._crew: Crew | None = None
        # Set in threads that run the listener: they cannot wait for themselves.
        self._own = threading.local()
        self._ownership = Ownership(
            engine, lease_name(client), on_acquired=self._begin, on_lost=self._end, ttl=ttl, clock=clock
        )

    def start(self) -> None:
        """Begin to stand by, in a thread of its own."""
        self._ownership.start()

    @property
    def active(self) -> bool:
        """Tell whether this subscription is the one that works; the others of its client stand by."""
        return self._ownership.lease is not None

    @property
    def reason(self) -> str:
        """How things stand, in words: who works, or why this one does not."""
        return self._ownership.reason

    def close(self) -> None:
        """Finish the running listener calls and let another subscriber begin at once; idempotent.

        Called by the listener itself, it returns at once, and the end comes after that call.
        """
        self._ownership.stop(wait=not getattr(self._own, "inside", False))

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def _begin(self, lease: Lease) -> None:
        self._crew = Crew(
            self._engine,
            self._client,
            poll_interval=self._poll_interval,
            follow=partial(self._follow, lease),
            on_error=partial(self._report, ""),
        )
        self._crew.start()

    def _end(self, error: Exception | None) -> None:
        if self._crew is not None:
            self._crew.stop()
            self._crew = None
        if error is not None:
            self._report("", error)

    def _follow(self, lease: Lease, queue: ReceiveQueue, stopping: threading.Event) -> None:
        follower = Follower(
            self._engine,
            self._listener,
            queue,
            lease,
            self._options,
            stopping=stopping,
            report=self._report,
            clock=self._clock,
        )
        with self._inside():
            try:
                follower.run()
            except OwnershipLostError:
                self._ownership.wake()

    def _report(self, source: str, error: Exception) -> None:
        _log.warning("delivery failed", client=self._client, source=source, error=describe(error))
        try:
            with self._inside():
                self._listener.on_error(source, error)
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - the application's own; delivery goes on
            _log.error("on_error raised", client=self._client, source=source, error=describe(problem))

    @contextmanager
    def _inside(self) -> Iterator[None]:
        before = getattr(self._own, "inside", False)
        self._own.inside = True
        try:
            yield
        finally:
            self._own.inside = before
