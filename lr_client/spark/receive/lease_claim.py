"""Hold the subscriber lease of a client for a Spark stream, so that ordinary subscribers stand by."""

import threading
from typing import Final

from sqlalchemy import Engine

from discovery.ownership import Ownership
from queues.clock import SYSTEM_CLOCK
from queues.database.leases import Lease
from queues.database.transactions import reading
from queues.errors import UsageError, WaitTimeoutError
from queues.names import ClientName
from queues.receive import shard_marks
from queues.receive.consumer_marks import subscriber_lease

#: Seconds to wait for the lease beyond its own duration.
_GRACE: Final = 5.0


class LeaseClaim:
    """Holds the lease until `close`.

    Spark kills the process without `close`; other processes on the machine then notice that the owner is gone.
    """

    def __init__(self, engine: Engine, client: ClientName, ttl: float) -> None:
        """Start to wait for the lease in a new thread; the lease lasts *ttl* seconds unless renewed."""
        self._engine = engine
        self._client = client
        self._patience = ttl + _GRACE
        self._owned = threading.Event()
        self._ownership = Ownership(
            engine,
            subscriber_lease(client),
            on_acquired=lambda _lease: self._owned.set(),
            on_lost=lambda _error: self._owned.clear(),
            ttl=ttl,
        )
        self._ownership.start()

    def lease(self) -> Lease:
        """Wait for the lease and return it.

        Raises `WaitTimeoutError` when another subscriber keeps renewing its own, and `UsageError` for a client with
        shards.
        """
        with reading(self._engine) as connection:
            if shard_marks.most_shards(connection, self._client):
                raise UsageError(
                    f"{self._client} has several shards here, which a Spark stream cannot take over: run "
                    f"`lrq subscribe shards {self._client} 1` with a subscriber at work, "
                    "or read without deleting by deleteOnCommit=false"
                )
        SYSTEM_CLOCK.wait(self._owned, self._patience)
        lease = self._ownership.lease
        if lease is None:
            raise WaitTimeoutError(
                f"another subscriber of {self._client} is at work ({self._ownership.reason}): "
                "stop it first, or read without deleting by deleteOnCommit=false"
            )
        return lease

    def close(self) -> None:
        """Release the lease, so that another subscriber can begin."""
        self._ownership.stop()
