"""The threads of an active subscription, or of one shard: one polls the registry, one follows each receive queue."""

import threading
from collections.abc import Callable
from functools import partial

from sqlalchemy import Connection, Engine

from discovery.polling import RegistryPoller
from discovery.registry import ReceiveQueue
from discovery.threads import watched
from lr_client.subscriber.error_reports import ErrorReports
from lr_client.subscriber.followed_queue import FollowedQueue, Options
from lr_client.subscriber.follower import Follower
from lr_client.subscriber.listener import RoutingQueueListener
from lr_client.subscriber.shard_follower import Nudges, ShardFollower
from lr_client.subscriber.sleepers import Sleeper, sleepers_of
from lr_client.subscriber.unpacker import Unpacker
from queues.clock import Clock
from queues.database.leases import Lease
from queues.errors import OwnershipLostError
from queues.names import ClientName


class QueueWork:
    """The work under one lease: threads that *make* makes when it begins; errors that end it go to *report*."""

    def __init__(self, make: Callable[[Lease], "QueueThreads"], report: Callable[[str, Exception], None]) -> None:
        """Prepare; `begin` and `end` are called as `Ownership` calls its callbacks."""
        self._make = make
        self._report = report
        self._threads: QueueThreads | None = None

    def begin(self, lease: Lease) -> None:
        """Start all threads."""
        self._threads = self._make(lease)
        self._threads.start()

    def end(self, error: Exception | None) -> None:
        """Wait for the end of all threads."""
        if self._threads is not None:
            self._threads.stop()
            self._threads = None
        if error is not None:
            self._report("", error)


class QueueThreads:
    """Follows each receive queue of a client in a thread of its own, so no source delays another."""

    def __init__(
        self,
        engine: Engine,
        listener: RoutingQueueListener,
        client: ClientName,
        lease: Lease,
        options: Options,
        *,
        poll_interval: float,
        reports: ErrorReports,
        give_up: Callable[[Exception], None],
        unpacker: Unpacker,
        clock: Clock,
        shard: int | None = None,
        nudges: Nudges | None = None,
        on_poll: Callable[[Connection], None] = lambda _connection: None,
    ) -> None:
        """Work under *lease*; call *give_up*, in any thread, when a thread of the work has ended by itself.

        With *shard*, only that shard is followed; *nudges* are those of all shards in this process.
        """
        self._shard = shard
        self._nudges = nudges or Nudges()
        self._engine = engine
        self._listener = listener
        self._lease = lease
        self._options = options
        self._reports = reports
        self._give_up = give_up
        self._unpacker = unpacker
        self._clock = clock
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._sleepers: list[Sleeper] = []
        self._poller = RegistryPoller(
            engine,
            client,
            interval=poll_interval,
            on_found=self.start_follower,
            on_error=partial(reports.report, "", work=self),
            on_ended=give_up,
            on_poll=self._polled,
        )
        self._on_poll = on_poll

    def start(self) -> None:
        """Start to poll the registry, and follow the queues that it lists."""
        self._poller.start()

    def stop(self) -> None:
        """Stop all threads and wait for their end; running calls of the listener finish first."""
        self._stopping.set()
        self._poller.stop()
        self._reports.ended(self)
        for sleeper in self._sleepers:
            sleeper.wake()
        for thread in self._threads:
            thread.join()
        for sleeper in self._sleepers:
            sleeper.close()

    def start_follower(self, queue: ReceiveQueue) -> None:
        """Follow *queue* in a new thread, until `stop` is called or the lease is lost."""
        sleeper = sleepers_of(self._engine).sleeper(queue.queue_id, self._clock)
        thread = watched(f"lrq-{queue.name}", partial(self._follow, queue, sleeper), self._give_up)
        try:
            thread.start()
        except RuntimeError:
            # The next look at the registry tries again, with another one.
            sleeper.close()
            raise
        self._sleepers.append(sleeper)
        self._threads.append(thread)

    def _polled(self, connection: Connection) -> None:
        self._on_poll(connection)
        self._reports.succeeded(self)

    def _follow(self, queue: ReceiveQueue, sleeper: Sleeper) -> None:
        follower = self._follower(queue, sleeper)
        with self._reports.listening():
            try:
                follower.run()
            except OwnershipLostError as lost:
                self._give_up(lost)
            finally:
                self._reports.ended(sleeper)

    def _follower(self, queue: ReceiveQueue, sleeper: Sleeper) -> Follower:
        followed = FollowedQueue(
            engine=self._engine,
            listener=self._listener,
            queue=queue,
            lease=self._lease,
            options=self._options,
            stopping=self._stopping,
            report=partial(self._reports.report, work=sleeper),
            succeeded=partial(self._reports.succeeded, sleeper),
            recovered=self._reports.recovered,
            sleeper=sleeper,
            unpacker=self._unpacker,
            clock=self._clock,
        )
        if self._shard is None:
            return Follower(followed)
        return ShardFollower(followed, shard=self._shard, nudges=self._nudges)
