"""Ownership of a site: one process is the owner, the others stand by."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text, update

from discovery.ownership import Ownership, OwnershipState
from queues.clock import SYSTEM_CLOCK, Clock, SystemClock
from queues.database import leases, tables
from queues.database.leases import Lease
from queues.database.transactions import reading, writing
from queues.errors import LrqError, OwnershipLostError, ThreadEndedError
from tests.absent_database import absent
from tests.refused_renewals import renewals_refused
from tests.waiting import eventually

pytestmark = pytest.mark.long


class CountingClock(SystemClock):
    """Counts the turns of an `Ownership`: each of them ends with a wait."""

    def __init__(self) -> None:
        self.turns = 0

    def wait(self, event: threading.Event, timeout: float) -> bool:
        self.turns += 1
        return super().wait(event, timeout)

    def let_turns_pass(self, ownership: Ownership) -> None:
        for _ in range(3):
            before = self.turns
            ownership.wake()
            eventually(lambda: self.turns > before)  # noqa: B023 - called in this turn


class SlowClock(SystemClock):
    """Records the waits; with `slow` set, each look at the clock comes a minute later."""

    def __init__(self) -> None:
        self.slow = False
        self.waits: list[float] = []
        self._late = 0.0

    def monotonic(self) -> float:
        self._late += 60.0 * self.slow
        return super().monotonic() + self._late

    def wait(self, event: threading.Event, timeout: float) -> bool:
        self.waits.append(timeout)
        return super().wait(event, max(timeout, 0.01))


class Worker:
    """Records the callbacks of an `Ownership`."""

    def __init__(
        self,
        engine: Engine,
        *,
        ttl: float = 60,
        begin: Callable[[], None] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.acquired: list[Lease] = []
        self.lost: list[Exception | None] = []
        self._begin = begin
        self.ownership = Ownership(
            engine, "server", on_acquired=self._acquire, on_lost=self.lost.append, ttl=ttl, clock=clock
        )

    def _acquire(self, lease: Lease) -> None:
        if self._begin:
            self._begin()
        self.acquired.append(lease)


@pytest.fixture
def worker(site: Engine) -> Iterator[Callable[..., Worker]]:
    made: list[Worker] = []

    def make(**options: object) -> Worker:
        made.append(Worker(site, **options))
        made[-1].ownership.start()
        return made[-1]

    yield make
    for one in made:
        one.ownership.stop()


def expire(engine: Engine) -> None:
    """Expire all leases, as time does while their process is paused."""
    with writing(engine) as connection:
        connection.execute(update(tables.servers.leases).values(expires_us=0))


def test_the_first_process_becomes_the_owner(worker: Callable[..., Worker]) -> None:
    one = worker()
    eventually(lambda: one.acquired)
    assert one.ownership.lease == one.acquired[0]
    assert (one.ownership.state, one.ownership.reason) == (OwnershipState.OWNER, "server: owned as generation 1")


def test_a_renewal_that_took_longer_than_its_pause_is_followed_by_another_at_once(
    worker: Callable[..., Worker],
) -> None:
    clock = SlowClock()
    one = worker(ttl=60, clock=clock)
    eventually(lambda: one.acquired and clock.waits)
    assert 0 < clock.waits[-1] <= 20
    clock.slow = True
    one.ownership.wake()
    eventually(lambda: clock.waits.count(0.0) > 1)
    assert len(one.acquired) == 1


def test_the_second_process_stands_by_and_names_the_owner(worker: Callable[..., Worker]) -> None:
    one = worker()
    eventually(lambda: one.acquired)
    two = worker()
    eventually(lambda: two.ownership.state is OwnershipState.STANDING_BY)
    assert two.ownership.reason.startswith(f"server: standing by, {one.acquired[0].owner} owns it")
    assert two.acquired == []


def test_a_stopping_owner_hands_over_before_the_lease_expires(worker: Callable[..., Worker]) -> None:
    one = worker()
    eventually(lambda: one.acquired)
    two = worker()
    one.ownership.stop()
    two.ownership.wake()
    eventually(lambda: two.acquired)
    assert one.lost == [None]
    assert two.acquired[0].generation == 2


def test_a_replaced_owner_notices_it_and_stands_by_again(site: Engine, worker: Callable[..., Worker]) -> None:
    one = worker()
    eventually(lambda: one.acquired)
    two = worker()
    expire(site)
    two.ownership.wake()
    eventually(lambda: two.acquired)
    one.ownership.wake()
    eventually(lambda: one.lost)
    assert isinstance(one.lost[0], OwnershipLostError)
    eventually(lambda: one.ownership.state in (OwnershipState.STANDING_BY, OwnershipState.ENDED))
    two.ownership.stop()
    one.ownership.wake()
    eventually(lambda: len(one.acquired) == 2)
    assert [lease.generation for lease in one.acquired] == [1, 3]


def test_transactions_of_a_replaced_owner_are_refused_before_it_notices(
    site: Engine, worker: Callable[..., Worker]
) -> None:
    one = worker()
    eventually(lambda: one.acquired)
    expire(site)
    leases.acquire(site, "server", "another", ttl=60)
    with pytest.raises(OwnershipLostError), writing(site) as connection:
        leases.check(connection, one.acquired[0])
    assert one.lost == []


def test_the_owner_renews_its_lease(site: Engine, worker: Callable[..., Worker]) -> None:
    one = worker(ttl=0.3)
    eventually(lambda: one.acquired)
    first = _expiry(site)
    eventually(lambda: _expiry(site) > first)
    assert one.lost == []


def test_the_owner_ends_its_work_before_it_releases_the_lease(site: Engine) -> None:
    held: list[bool] = []
    ownership = Ownership(
        site,
        "server",
        on_acquired=lambda _: None,
        on_lost=lambda _: held.append(leases.holder(site, "server").expired),
        ttl=60,
    )
    ownership.start()
    eventually(lambda: ownership.lease)
    ownership.stop()
    assert held == [False]
    assert leases.holder(site, "server").expired


def test_an_owner_whose_work_cannot_begin_releases_the_lease_and_retries(worker: Callable[..., Worker]) -> None:
    troubles = [LrqError("not yet")]

    def begin() -> None:
        if troubles:
            raise troubles.pop()

    one = worker(begin=begin)
    eventually(lambda: one.ownership.state is OwnershipState.ENDED)
    assert one.ownership.reason == "server: the work could not begin: not yet"
    assert str(one.lost[0]) == "not yet"
    one.ownership.wake()
    eventually(lambda: one.acquired)


# --- work that ends by an error of its own ----------------------------------------------------------------------


def test_an_owner_that_gives_up_releases_the_lease_and_lets_others_begin_first(worker: Callable[..., Worker]) -> None:
    one = worker()
    eventually(lambda: one.acquired)
    two = worker()
    eventually(lambda: two.ownership.state is OwnershipState.STANDING_BY)
    bug = LrqError("the thread lrq-x has ended")
    one.ownership.give_up(bug)
    eventually(lambda: two.acquired)
    assert one.lost == [bug]
    assert one.ownership.lease is None
    # The lease is free a moment before the state tells so.
    eventually(lambda: one.ownership.state is OwnershipState.ENDED)
    words = "server: the thread lrq-x has ended; the lease is released, and this process stands by again in 60 s"
    assert one.ownership.reason == words
    assert two.acquired[0].generation == 2


def test_an_owner_that_gave_up_works_again_after_a_rest(worker: Callable[..., Worker]) -> None:
    clock = CountingClock()
    one = worker(ttl=0.3, clock=clock)
    eventually(lambda: one.acquired)
    one.ownership.give_up(LrqError("once"))
    eventually(lambda: len(one.acquired) == 2)
    clock.let_turns_pass(one.ownership)
    assert len(one.lost) == 1


def test_a_lonely_owner_that_gave_up_leaves_the_lease_free_during_its_rest(
    site: Engine, worker: Callable[..., Worker]
) -> None:
    clock = CountingClock()
    one = worker(ttl=600, clock=clock)
    eventually(lambda: one.acquired)
    one.ownership.give_up(LrqError("a bug"))
    eventually(lambda: one.ownership.state is OwnershipState.ENDED)
    clock.let_turns_pass(one.ownership)
    assert leases.holder(site, "server").expired
    assert len(one.acquired) == 1


def test_the_rest_after_each_failure_in_a_row_doubles(worker: Callable[..., Worker]) -> None:
    one = worker(ttl=0.3)
    rests = []
    for number in range(3):
        eventually(lambda: len(one.acquired) == number + 1)  # noqa: B023 - called in this turn
        gave_up = SYSTEM_CLOCK.monotonic()
        one.ownership.give_up(LrqError("again"))
        eventually(lambda: len(one.lost) == number + 1)  # noqa: B023 - called in this turn
        rests.append(one.ownership._rest_until - gave_up)
    assert rests[1] >= 0.6
    assert rests[2] >= 1.2


def test_an_owner_that_gives_up_for_another_owner_stands_by_at_once(worker: Callable[..., Worker]) -> None:
    one = worker()
    eventually(lambda: one.acquired)
    one.ownership.give_up(OwnershipLostError("server", 1, 2))
    eventually(lambda: one.lost)
    one.ownership.wake()
    eventually(lambda: len(one.acquired) == 2)


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError()], ids=lambda error: type(error).__name__)
def test_an_ownership_whose_own_thread_ends_ends_the_work_and_releases_the_lease(
    site: Engine, error: BaseException
) -> None:
    class Broken(SystemClock):
        def wait(self, event: threading.Event, timeout: float) -> bool:
            if one.lease is not None:
                raise error
            return super().wait(event, timeout)

    lost: list[Exception | None] = []
    one = Ownership(site, "server", on_acquired=lambda _: None, on_lost=lost.append, ttl=60, clock=Broken())
    one.start()
    eventually(lambda: one.state is OwnershipState.ENDED)
    assert isinstance(lost[0], ThreadEndedError)
    assert f"server: the thread lrq-owner-server has ended by an error of its own: {type(error).__name__}" in one.reason
    assert leases.holder(site, "server").expired


def test_an_error_while_the_work_ends_is_part_of_the_reason(site: Engine) -> None:
    def fail(_: Exception | None) -> None:
        raise SystemExit("cannot end")

    one = Ownership(site, "server", on_acquired=lambda _: None, on_lost=fail, ttl=60)
    one.start()
    eventually(lambda: one.lease)
    one.give_up(LrqError("a bug"))
    eventually(lambda: one.state is OwnershipState.ENDED)
    assert "not released, it expires within 60 s: SystemExit: cannot end" in one.reason
    one.stop()


def test_a_failed_renewal_is_reported_until_one_succeeds(worker: Callable[..., Worker], site: Engine) -> None:
    one = worker()
    eventually(lambda: one.acquired)
    with writing(site) as connection:
        connection.execute(text("ALTER TABLE lrq_leases RENAME TO away"))
    one.ownership.wake()
    eventually(lambda: "lrq init" in one.ownership.reason)
    assert one.ownership.state is OwnershipState.OWNER
    with writing(site) as connection:
        connection.execute(text("ALTER TABLE away RENAME TO lrq_leases"))
    one.ownership.wake()
    eventually(lambda: "owned as generation 1" in one.ownership.reason)
    assert one.lost == []


def test_an_unusable_database_is_reported_and_retried(site: Engine) -> None:
    with writing(site) as connection:
        tables.servers.leases.drop(connection)
    ownership = Ownership(site, "server", on_acquired=lambda _: None, on_lost=lambda _: None, ttl=60)
    ownership.start()
    eventually(lambda: "lrq init" in ownership.reason)
    assert ownership.state is OwnershipState.NOT_STARTED
    with writing(site) as connection:
        tables.servers.leases.create(connection)
    ownership.wake()
    eventually(lambda: ownership.lease)
    ownership.stop()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_the_lease_of_a_dead_process_is_taken_over_at_once(site: Engine, worker: Callable[..., Worker]) -> None:
    program = "from discovery.processes import owner_name; print(owner_name())"
    gone = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
    leases.acquire(site, "server", gone, ttl=3600)
    one = worker()
    eventually(lambda: one.acquired)
    assert one.acquired[0].generation == 2


def test_a_clock_that_jumps_back_does_not_keep_the_lease_of_an_owner_that_renews_no_more(
    site: Engine, worker: Callable[..., Worker]
) -> None:
    leases.acquire(site, "server", "elsewhere", ttl=3600)
    clock = SlowClock()
    clock.slow = True
    one = worker(ttl=1, clock=clock)
    eventually(lambda: one.acquired)
    assert one.acquired[0].generation == 2


def test_a_lease_that_is_renewed_after_a_look_is_not_released(site: Engine) -> None:
    lease = leases.acquire(site, "server", "elsewhere", ttl=60)
    assert lease is not None
    seen = leases.holder(site, "server")
    assert seen is not None
    leases.renew(site, lease, 3600)
    leases.release(site, lease, seen_us=seen.expires_us)
    renewed = leases.holder(site, "server")
    assert renewed is not None
    assert not renewed.expired


def test_stop_inside_a_callback_does_not_deadlock(site: Engine) -> None:
    def acquired(_: Lease) -> None:
        ownership.stop()
        done.set()

    done = threading.Event()
    ownership = Ownership(site, "server", on_acquired=acquired, on_lost=lambda _: None, ttl=60)
    ownership.start()
    eventually(done.is_set)
    ownership.stop()
    assert (ownership.state, ownership.reason) == (OwnershipState.STOPPED, "server: stopped")


def test_an_ownership_that_was_never_started_can_be_stopped(site: Engine) -> None:
    Ownership(site, "server", on_acquired=lambda _: None, on_lost=lambda _: None).stop()


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_failures_to_acquire_the_lease_are_told_once_and_so_is_their_end(site: Engine) -> None:
    told: list[str] = []
    ownership = Ownership(
        site,
        "server",
        on_acquired=lambda _: told.append("acquired"),
        on_lost=lambda _: None,
        on_failed=lambda error: told.append(type(error).__name__),
        on_recovered=lambda: told.append("recovered"),
        ttl=60,
    )
    with absent(site):
        ownership.start()
        eventually(lambda: told)
        ownership.wake()
    eventually(lambda: "recovered" in told)
    ownership.stop()
    assert told[0] == "StoreUnavailableError"
    assert told[-2:] == ["acquired", "recovered"]


def test_a_lease_that_cannot_be_renewed_is_told_once_its_term_has_ended_and_so_is_the_end_of_that(site: Engine) -> None:
    told: list[str] = []
    clock = SlowClock()
    ownership = Ownership(
        site,
        "server",
        on_acquired=lambda _: told.append("acquired"),
        on_lost=lambda _: None,
        on_failed=lambda error: told.append(str(error)),
        on_recovered=lambda: told.append("recovered"),
        ttl=3600,
        clock=clock,
    )
    ownership.start()
    eventually(lambda: ownership.state is OwnershipState.OWNER and clock.waits)
    with renewals_refused(site):
        ownership.wake()
        eventually(lambda: "no_renewals" in ownership.reason)
        assert told == ["acquired"]
        clock.slow = True
        eventually(lambda: ownership.wake() or len(told) > 1)
        clock.slow = False
    eventually(lambda: ownership.wake() or "recovered" in told)
    ownership.stop()
    assert "no_renewals" in told[1]
    assert told[2:] == ["recovered"]


def _expiry(engine: Engine) -> int:
    with reading(engine) as connection:
        return connection.execute(tables.servers.leases.select()).one().expires_us
