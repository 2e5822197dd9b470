"""Ownership of a site or a subscription: one of several processes works, the others stand by."""

import threading
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from sqlalchemy import Engine

from discovery.processes import owner_name, surely_gone
from discovery.sightings import Sightings
from discovery.threads import watched
from queues.backoff import Backoff
from queues.clock import SYSTEM_CLOCK, Clock
from queues.database import leases
from queues.database.leases import Lease
from queues.errors import OwnershipLostError, StoreUnavailableError, ThreadEndedError
from queues.words import cleaned, in_words

#: The default time until the lease of an unresponsive owner expires, in seconds.
TTL: Final = 10.0
#: The longest time between two attempts of a standby to acquire the lease, in seconds.
_LOOK: Final = 1.0
#: The longest rest after a failure of the own work, in terms of the lease.
_LONGEST_REST: Final = 30


class OwnershipState(StrEnum):
    """The relation of an `Ownership` to its lease."""

    NOT_STARTED = "not started"
    #: Another process holds the lease.
    STANDING_BY = "standing by"
    #: The process holds the lease and works.
    OWNER = "owner"
    #: The work has just ended, or failed to start. A later turn stands by again.
    ENDED = "ended"
    STOPPED = "stopped"


class Ownership:
    """Stands by for the lease *name*, holds it as long as possible, and stands by again after a loss.

    One thread calls *on_acquired* with the lease, and later *on_lost*, exactly once for each lease. *on_lost* receives:

    * the `OwnershipLostError`, after another owner has taken over;
    * the error of *on_acquired*, after that failed;
    * the error of `give_up`;
    * None, after `stop`.

    The work must have ended when *on_lost* returns. A lease that is still held is then released for the next owner.

    `state` is the present relation to the lease; `reason` explains it in one sentence, or names the last failure.
    *on_failed* receives each failure to acquire the lease, but only the first of a row of equal ones. So is a failure
    to renew a held lease, once its term has ended, unless the whole database is away. *on_recovered* is called after
    the row.
    """

    def __init__(
        self,
        engine: Engine,
        name: str,
        *,
        on_acquired: Callable[[Lease], None],
        on_lost: Callable[[Exception | None], None],
        on_failed: Callable[[Exception], None] = lambda _error: None,
        on_recovered: Callable[[], None] = lambda: None,
        ttl: float = TTL,
        clock: Clock = SYSTEM_CLOCK,
        owner: str | None = None,
    ) -> None:
        """Acquire the lease for *ttl* seconds, and renew it every third of *ttl*.

        *owner* is an `owner_name` that other work of this process uses too; without it, the owner gets a new name.
        """
        self._engine = engine
        self._name = name
        self._owner = owner or owner_name()
        self._on_acquired = on_acquired
        self._on_lost = on_lost
        self._on_failed = on_failed
        self._on_recovered = on_recovered
        self._told = ""
        self._ttl = ttl
        self._clock = clock
        # Owners with a somewhat longer lease than this process count as living, too.
        self._sightings = Sightings(slack=ttl / 10, longest=4 * max(ttl, TTL))
        self._lease: Lease | None = None
        self._stopping = threading.Event()
        self._awake = threading.Event()
        self._given_up: Exception | None = None
        self._failures = 0
        self._began = self._renewed = self._rest_until = clock.monotonic()
        self._thread = watched(f"lrq-owner-{name}", self._run, self._end_by_error)
        self.state = OwnershipState.NOT_STARTED
        self.reason = f"{name}: not started"

    @property
    def lease(self) -> Lease | None:
        """The lease, if this process holds it to its knowledge."""
        return self._lease

    def start(self) -> None:
        """Start the thread that stands by."""
        self._thread.start()

    def wake(self) -> None:
        """Check the lease at once, for example after a transaction was refused."""
        self._awake.set()

    def give_up(self, error: Exception) -> None:
        """End the work because of *error*, and release the lease; for any thread of the work.

        After an `OwnershipLostError` this process stands by at once. After another error it rests first, so that
        others can take over. The rest is the term of the lease, doubled for each failure in a row.
        """
        self._given_up = self._given_up or error
        self._awake.set()

    def stop(self, *, wait: bool = True) -> None:
        """End the work and release the lease; with *wait*, return after that."""
        self._stopping.set()
        self._awake.set()
        if wait:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._awake.clear()
            began = self._clock.monotonic()
            self._turn()
            if not self._stopping.is_set():
                self._clock.wait(self._awake, self._pause(began))
        self._end(None, OwnershipState.STOPPED, f"{self._name}: stopped")

    def _end_by_error(self, error: ThreadEndedError) -> None:
        self._end(error, OwnershipState.ENDED, f"{self._name}: {error}")

    def _pause(self, began: float) -> float:
        if not self._lease:
            return min(self._ttl / 3, _LOOK)
        # A commit may wait for standby servers until the lease has expired. Then the next renewal must come at once.
        return max(self._ttl / 3 - (self._clock.monotonic() - began), 0.0)

    def _turn(self) -> None:
        try:
            if self._lease and self._given_up:
                self._end_given_up(self._given_up)
            elif self._lease:
                leases.renew(self._engine, self._lease, self._ttl)
                self._show_owner(self._lease)
                self._note_success()
            elif self._clock.monotonic() >= self._rest_until:
                self._stand_by()
                self._note_success()
        except OwnershipLostError as error:
            self._end(error, OwnershipState.ENDED, str(error))
        except Exception as error:  # noqa: BLE001 - told in `reason`; the next turn tries again
            self._note_failure(error)

    def _note_failure(self, error: Exception) -> None:
        self.reason = f"{self._name}: {in_words(error)}"
        if self.reason != self._told and (self._lease is None or self._is_overdue(error)):
            self._told = self.reason
            self._on_failed(error)

    def _is_overdue(self, error: Exception) -> bool:
        # While the whole database is away, the work under the lease meets the same failure, and reports it itself.
        if isinstance(error, StoreUnavailableError):
            return False
        return self._clock.monotonic() - self._renewed > self._ttl

    def _note_success(self) -> None:
        if self._told:
            self._told = ""
            self._on_recovered()

    def _end_given_up(self, error: Exception) -> None:
        if isinstance(error, OwnershipLostError):
            self._end(error, OwnershipState.ENDED, str(error))
            return
        now = self._clock.monotonic()
        has_recovered = now - self._began > _LONGEST_REST * self._ttl
        self._failures = 1 if has_recovered else self._failures + 1
        rest = Backoff(self._ttl, _LONGEST_REST * self._ttl).delay_seconds(self._failures)
        self._rest_until = now + rest
        self._end(
            error,
            OwnershipState.ENDED,
            f"{self._name}: {in_words(error)}; the lease is released, and this process stands by again in {rest:.0f} s",
        )

    def _stand_by(self) -> None:
        held = leases.holder(self._engine, self._name)
        if held and not held.expired and not self._is_gone(held):
            self.reason = f"{self._name}: standing by, {held.lease.owner} owns it as generation {held.lease.generation}"
            self.state = OwnershipState.STANDING_BY
            return
        if held and not held.expired:  # the owner has ended, so its lease need not expire first
            leases.release(self._engine, held.lease, seen_us=held.expires_us)
        self._lease = leases.acquire(self._engine, self._name, self._owner, self._ttl)
        if self._lease:
            self._began = self._clock.monotonic()
            self._show_owner(self._lease)
            self._begin(self._lease)

    def _is_gone(self, held: leases.LeaseHolder) -> bool:
        """Return whether the owner has surely ended, or renews no more while the database's clock has gone back."""
        owner, now = held.lease.owner, self._clock.monotonic()
        self._sightings.keep(frozenset({owner}))
        is_overdue = self._sightings.is_overdue(owner, held.expires_us, now_us=held.now_us, monotonic=now)
        return is_overdue or surely_gone(owner)

    def _show_owner(self, lease: Lease) -> None:
        self._renewed = self._clock.monotonic()
        self.reason = f"{self._name}: owned as generation {lease.generation}"
        self.state = OwnershipState.OWNER

    def _begin(self, lease: Lease) -> None:
        try:
            self._on_acquired(lease)
        except Exception as error:  # noqa: BLE001 - told to `on_lost`; the next turn tries again
            self._end(error, OwnershipState.ENDED, f"{self._name}: the work could not begin: {in_words(error)}")

    def _end(self, error: Exception | None, state: OwnershipState, reason: str) -> None:
        lease, self._lease = self._lease, None
        try:
            if lease is not None:
                self._on_lost(error)
                leases.release(self._engine, lease)
            self.reason = cleaned(reason)
        except BaseException as problem:  # noqa: BLE001 - the lease expires by itself
            self.reason = f"{cleaned(reason)}; not released, it expires within {self._ttl} s: {in_words(problem)}"
        # All threads of the work have ended, so none gives up the next lease.
        self._given_up = None
        self.state = state
