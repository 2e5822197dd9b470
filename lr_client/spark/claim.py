"""A stream of Spark's holds the lease of its client's working subscriber, so that an ordinary one stands by."""

import threading
from typing import Final

from sqlalchemy import Engine

from discovery.ownership import Ownership
from lr_client.subscriber import lease_name
from queues.clock import SYSTEM_CLOCK
from queues.errors import WaitTimeoutError
from queues.leases import Lease
from queues.names import ClientName

#: How much longer than a lease lasts it is waited for, in seconds.
_GRACE: Final = 5.0


class Claim:
    """Holds the lease until it is closed; Spark ends the process without that, which others on the machine notice."""

    def __init__(self, engine: Engine, client: ClientName, ttl: float) -> None:
        """Begin to wait for the lease, in a thread of its own."""
        self._client = client
        self._patience = ttl + _GRACE
        self._owned = threading.Event()
        self._ownership = Ownership(
            engine,
            lease_name(client),
            on_acquired=lambda _lease: self._owned.set(),
            on_lost=lambda _error: self._owned.clear(),
            ttl=ttl,
        )
        self._ownership.start()

    def lease(self) -> Lease:
        """Return the lease; raise `WaitTimeoutError` when another subscriber keeps it for longer than one lasts."""
        SYSTEM_CLOCK.wait(self._owned, self._patience)
        lease = self._ownership.lease
        if lease is None:
            raise WaitTimeoutError(
                f"another subscriber of {self._client} is at work ({self._ownership.reason}): "
                "stop it first, or only look on with deleteOnCommit=false"
            )
        return lease

    def close(self) -> None:
        """Let another subscriber begin."""
        self._ownership.stop()
