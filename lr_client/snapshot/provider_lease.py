"""The lease of the working transmitter of a client. While the lease is held, the client has a provider here."""

from typing import Final

from sqlalchemy import Engine

from discovery.processes import surely_gone
from queues import send_snapshot
from queues.clock import Clock
from queues.database import leases
from queues.database.leases import Lease
from queues.database.transactions import writing_briefly
from queues.names import ClientName
from queues.send_snapshot.states import transmitter_lease

#: Renewals in one term of the lease.
_SIGNS: Final = 4


class ProviderLease:
    """Acquires and renews the lease for *owner*, for *seconds* each time."""

    def __init__(self, engine: Engine, client: ClientName, owner: str, seconds: float, clock: Clock) -> None:
        """Prepare; `hold` is called again and again."""
        self._engine = engine
        self._client = client
        self._owner = owner
        self._seconds = seconds
        self._clock = clock
        self._lease: Lease | None = None
        self._next_sign = 0.0

    @property
    def is_held(self) -> bool | None:
        """Whether the lease is held here; False while another transmitter holds it, and None before the first look."""
        return None if self._next_sign == 0.0 else self._lease is not None

    @property
    def is_due(self) -> bool:
        """Whether `hold` will renew the lease, or try to acquire it."""
        return self._clock.monotonic() >= self._next_sign

    def hold(self) -> Lease | None:
        """Acquire or renew the lease if that is due; return the lease, or None while another transmitter holds it.

        Each renewal also tells that the client has a provider. Raises `OwnershipLostError` after a takeover.
        """
        now = self._clock.monotonic()
        if now < self._next_sign:
            return self._lease
        if self._lease is not None:
            leases.renew(self._engine, self._lease, self._seconds)
        else:
            self._lease = self._take_over()
        self._next_sign = now + self._seconds / _SIGNS
        if self._lease is not None:
            with writing_briefly(self._engine) as connection:
                send_snapshot.provider_seen(connection, self._client, self._owner)
        return self._lease

    def _take_over(self) -> Lease | None:
        name = transmitter_lease(self._client)
        held = leases.holder(self._engine, name)
        if held and not held.expired and surely_gone(held.lease.owner):  # a dead owner never comes back
            leases.release(self._engine, held.lease)
        return leases.acquire(self._engine, name, self._owner, self._seconds)

    def lose(self) -> None:
        """Take the lease for lost; `hold` tries to acquire it again."""
        self._lease = None

    def release(self) -> None:
        """Leave the lease to the next transmitter, and tell that this provider has gone; raises `LrqError`."""
        if self._lease is None:
            return
        with writing_briefly(self._engine) as connection:
            send_snapshot.provider_gone(connection, self._client, self._owner)
        leases.release(self._engine, self._lease)
