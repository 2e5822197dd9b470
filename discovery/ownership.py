"""Ownership of a site or a subscription: one of several processes works, the others stand by."""

import threading
from collections.abc import Callable
from typing import Final

from sqlalchemy import Engine

from discovery.processes import owner_name, surely_gone
from queues import leases
from queues.clock import SYSTEM_CLOCK, Clock
from queues.errors import OwnershipLostError
from queues.leases import Lease

#: How long an owner that is not heard of keeps its lease by default, in seconds.
TTL: Final = 10.0
#: How often at least one that stands by looks whether it can take over, in seconds.
_LOOK: Final = 1.0


class Ownership:
    """Stands by for the lease *name*, holds it while it can, and stands by again after losing it.

    Its own thread calls *on_acquired* with the lease, and later, exactly once for each, *on_lost*: with the
    `OwnershipLostError` when another owner has taken over, with what *on_acquired* raised when it did, with None
    when `stop` ends it. When *on_lost* returns, the work must have ended: a lease that is still held is released
    right after, so that the next one can begin at once. `reason` tells in words how things stand.
    """

    def __init__(
        self,
        engine: Engine,
        name: str,
        *,
        on_acquired: Callable[[Lease], None],
        on_lost: Callable[[Exception | None], None],
        ttl: float = TTL,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Hold the lease for *ttl* seconds at a time and renew it after each third of that."""
        self._engine = engine
        self._name = name
        self._owner = owner_name()
        self._on_acquired = on_acquired
        self._on_lost = on_lost
        self._ttl = ttl
        self._clock = clock
        self._lease: Lease | None = None
        self._stopping = threading.Event()
        self._awake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lrq-owner-{name}", daemon=True)
        self.reason = f"{name}: not started"

    @property
    def lease(self) -> Lease | None:
        """The lease while it is held, as far as this process knows."""
        return self._lease

    def start(self) -> None:
        """Begin to stand by."""
        self._thread.start()

    def wake(self) -> None:
        """Look at once how things stand, for instance because a transaction was refused."""
        self._awake.set()

    def stop(self, *, wait: bool = True) -> None:
        """End the work and release the lease; with *wait*, return when that is done."""
        self._stopping.set()
        self._awake.set()
        if wait and self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._awake.clear()
            self._turn()
            if not self._stopping.is_set():
                self._clock.wait(self._awake, self._pause())
        self._end(None, f"{self._name}: stopped")

    def _pause(self) -> float:
        return self._ttl / 3 if self._lease else min(self._ttl / 3, _LOOK)

    def _turn(self) -> None:
        try:
            if self._lease:
                leases.renew(self._engine, self._lease, self._ttl)
                self.reason = self._owned(self._lease)
            else:
                self._stand_by()
        except OwnershipLostError as error:
            self._end(error, str(error))
        except Exception as error:  # noqa: BLE001 - told in `reason`; the next turn tries again
            self.reason = f"{self._name}: {error}"

    def _stand_by(self) -> None:
        held = leases.holder(self._engine, self._name)
        if held and not held.expired and not surely_gone(held.lease.owner):
            self.reason = f"{self._name}: standing by, {held.lease.owner} owns it as generation {held.lease.generation}"
            return
        if held and not held.expired:  # its process is gone, so there is nobody to wait for
            leases.release(self._engine, held.lease)
        self._lease = leases.acquire(self._engine, self._name, self._owner, self._ttl)
        if self._lease:
            self.reason = self._owned(self._lease)
            self._begin(self._lease)

    def _owned(self, lease: Lease) -> str:
        return f"{self._name}: owned as generation {lease.generation}"

    def _begin(self, lease: Lease) -> None:
        try:
            self._on_acquired(lease)
        except Exception as error:  # noqa: BLE001 - told to `on_lost`; the next turn tries again
            self._end(error, f"{self._name}: the work could not begin: {error}")

    def _end(self, error: Exception | None, reason: str) -> None:
        lease, self._lease = self._lease, None
        try:
            if lease is not None:
                self._on_lost(error)
                leases.release(self._engine, lease)
            self.reason = reason
        except Exception as problem:  # noqa: BLE001 - the lease expires by itself
            self.reason = f"{reason}; not released, it expires within {self._ttl} s: {problem}"
