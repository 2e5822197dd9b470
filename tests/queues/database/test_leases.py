"""Leases: a lease has one owner at a time, and each transaction of a stale owner is refused."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, text, update

import queues
from queues.database import leases, tables
from queues.database.transactions import reading, writing, writing_briefly
from queues.errors import OwnershipLostError, StoreUnavailableError
from tests.waiting import eventually


def test_the_first_acquisition_has_generation_one(site: Engine) -> None:
    assert leases.acquire(site, "server", "a", ttl=60) == leases.Lease("server", "a", 1)


def test_a_lease_that_is_held_is_not_given_to_another(site: Engine) -> None:
    leases.acquire(site, "server", "a", ttl=60)
    assert leases.acquire(site, "server", "b", ttl=60) is None


def test_leases_of_different_names_are_independent(site: Engine) -> None:
    leases.acquire(site, "subscriber/policy", "a", ttl=60)
    assert leases.acquire(site, "subscriber/policy_v2", "b", ttl=60) is not None


def test_an_expired_lease_is_taken_over_with_a_higher_generation(site: Engine) -> None:
    leases.acquire(site, "server", "a", ttl=0)
    assert leases.acquire(site, "server", "b", ttl=60) == leases.Lease("server", "b", 2)


def test_a_released_lease_is_taken_over_at_once(site: Engine) -> None:
    first = leases.acquire(site, "server", "a", ttl=60)
    leases.release(site, first)
    assert leases.acquire(site, "server", "b", ttl=60).generation == 2


def test_acquiring_a_lease_again_fences_the_earlier_lease_of_the_same_owner(site: Engine) -> None:
    first = leases.acquire(site, "server", "a", ttl=60)
    assert leases.acquire(site, "server", "a", ttl=60).generation == 2
    with writing(site) as connection, pytest.raises(OwnershipLostError):
        leases.check(connection, first)


def test_a_renewed_lease_is_not_given_to_another(site: Engine) -> None:
    lease = leases.acquire(site, "server", "a", ttl=0)
    leases.renew(site, lease, ttl=60)
    assert leases.acquire(site, "server", "b", ttl=60) is None


def test_an_expired_lease_can_be_renewed_until_another_server_takes_it(site: Engine) -> None:
    lease = leases.acquire(site, "server", "a", ttl=0)
    leases.renew(site, lease, ttl=60)
    with writing(site) as connection:
        leases.check(connection, lease)


def test_renewing_after_a_takeover_names_the_newer_generation(site: Engine) -> None:
    lease = leases.acquire(site, "server", "a", ttl=0)
    leases.acquire(site, "server", "b", ttl=60)
    with pytest.raises(OwnershipLostError, match="generation 1 was taken over by generation 2"):
        leases.renew(site, lease, ttl=60)


def test_releasing_after_a_takeover_does_not_disturb_the_new_owner(site: Engine) -> None:
    lease = leases.acquire(site, "server", "a", ttl=0)
    leases.acquire(site, "server", "b", ttl=60)
    leases.release(site, lease)
    assert leases.acquire(site, "server", "c", ttl=60) is None


def test_a_stale_owner_is_refused_inside_its_transaction(site: Engine) -> None:
    lease = leases.acquire(site, "server", "a", ttl=0)
    leases.acquire(site, "server", "b", ttl=60)
    with pytest.raises(OwnershipLostError), writing(site) as connection:
        leases.check(connection, lease)


def test_a_lease_is_lost_by_a_takeover_and_not_by_the_clock(site: Engine) -> None:
    lease = leases.acquire(site, "server", "a", ttl=0)
    with writing(site) as connection:
        leases.check(connection, lease)


def test_one_of_many_simultaneous_acquisitions_succeeds(site: Engine) -> None:
    got: list[leases.Lease | None] = []
    barrier = threading.Barrier(8)

    def contend(owner: str) -> None:
        barrier.wait()
        got.append(leases.acquire(site, "server", owner, ttl=60))

    threads = [threading.Thread(target=contend, args=(f"owner {n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8
    assert [lease.generation for lease in got if lease] == [1]


def test_the_holder_of_a_lease_names_the_owner_and_tells_whether_the_lease_has_expired(site: Engine) -> None:
    assert leases.holder(site, "server") is None
    lease = leases.acquire(site, "server", "a", ttl=60)
    held = leases.holder(site, "server")
    assert held is not None
    assert (held.lease, held.expired, held.expires_us > held.now_us) == (lease, False, True)
    leases.release(site, lease)
    released = leases.holder(site, "server")
    assert released is not None
    assert (released.lease, released.expired) == (lease, True)


def test_a_renewal_does_not_wait_for_a_transaction_under_the_same_lease(site: Engine, dialect: str) -> None:
    if dialect == "sqlite":
        pytest.skip("SQLite has one writer, so the renewal does wait")
    lease = leases.acquire(site, "server", "a", ttl=60)
    with writing(site) as connection:
        leases.check(connection, lease)
        leases.renew(site, lease, ttl=60)


@pytest.mark.parametrize("generation", [1, 2**31, 2**40])
def test_a_takeover_ends_the_open_transactions_of_a_stopped_owner(site: Engine, dialect: str, generation: int) -> None:
    if dialect == "sqlite":
        pytest.skip("no process can end another one's transaction on SQLite")
    leases.acquire(site, "server", "a", ttl=0)
    with writing(site) as connection:
        connection.execute(update(tables.servers.leases).values(generation=generation))
    lease = leases.acquire(site, "server", "a", ttl=0)
    with pytest.raises(StoreUnavailableError):
        _be_taken_over_in_the_middle(site, lease)
    with reading(site) as connection:
        assert connection.execute(text("SELECT site_id FROM lrq_site")).scalar() == "paris"


def _be_taken_over_in_the_middle(site: Engine, lease: leases.Lease) -> None:
    with writing(site) as stale:
        leases.check(stale, lease)
        stale.execute(text("UPDATE lrq_site SET site_id = 'lost'"))
        leases.acquire(site, "server", "b", ttl=0.001)
        with writing(site) as successor:
            successor.execute(text("UPDATE lrq_site SET created_us = created_us"))


def test_a_takeover_ends_a_copy_that_a_stopped_owner_has_begun(site: Engine, dialect: str) -> None:
    if dialect == "sqlite":
        pytest.skip("no process can end another one's transaction on SQLite")
    lease = leases.acquire(site, "server", "a", ttl=0)
    with pytest.raises(StoreUnavailableError):
        _be_taken_over_in_a_copy(site, lease)


def _be_taken_over_in_a_copy(site: Engine, lease: leases.Lease) -> None:
    with writing(site) as stale:
        leases.check(stale, lease)
        with stale.connection.driver_connection.cursor().copy("COPY lrq_site (site_id) FROM STDIN") as copy:
            copy.write_row(["lost"])
            leases.acquire(site, "server", "b", ttl=0.001)
            with writing(site) as successor:
                successor.execute(text("LOCK TABLE lrq_site IN EXCLUSIVE MODE"))


@pytest.mark.usefixtures("impatient_database")
def test_a_process_that_stops_during_a_renewal_does_not_delay_its_successor(site: Engine, dialect: str) -> None:
    if dialect == "sqlite":
        pytest.skip("no process can end another one's transaction on SQLite")
    leases.acquire(site, "server", "a", ttl=0)
    with pytest.raises(StoreUnavailableError):
        _be_taken_over_while_renewing(site)


def _be_taken_over_while_renewing(site: Engine) -> None:
    with writing_briefly(site) as stopped:
        stopped.execute(text("UPDATE lrq_leases SET expires_us = 0"))
        assert leases.acquire(site, "server", "b", ttl=60).generation == 2
        stopped.execute(text("SELECT 1"))


def test_a_takeover_does_not_end_transactions_that_make_progress(site: Engine, dialect: str) -> None:
    if dialect == "sqlite":
        pytest.skip("no process can end another one's transaction on SQLite")
    lease = leases.acquire(site, "server", "a", ttl=0)
    with writing(site) as slow:
        leases.check(slow, lease)
        successor = leases.acquire(site, "server", "b", ttl=60)
        leases.renew(site, successor, ttl=60)
        slow.execute(text("SELECT 1"))


def test_a_renewal_does_not_end_idle_transactions_of_the_same_owner(site: Engine) -> None:
    lease = leases.acquire(site, "server", "a", ttl=60)
    with reading(site) as connection:
        leases.check(connection, lease)
        leases.renew(site, lease, ttl=0)
        leases.check(connection, lease)


def test_a_renewal_does_not_end_transactions_of_another_site_in_the_same_database(
    new_database: Callable[[], str], dialect: str
) -> None:
    if dialect == "sqlite":
        pytest.skip("no two sites share a database on SQLite")
    url = new_database()
    with _site_in_a_schema(url, "paris") as paris, _site_in_a_schema(url, "tokyo") as tokyo:
        leases.acquire(paris, "subscriber/policy", "a", ttl=0)
        ours = leases.acquire(paris, "subscriber/policy", "b", ttl=60)
        theirs = leases.acquire(tokyo, "subscriber/policy", "c", ttl=60)
        assert ours.generation != theirs.generation
        with reading(tokyo) as connection:
            leases.check(connection, theirs)
            leases.renew(paris, ours, ttl=0)
            connection.execute(text("SELECT 1"))


@contextmanager
def _site_in_a_schema(url: str, name: str) -> Iterator[Engine]:
    engine = queues.create_engine(url, schema=name)
    queues.initialize(engine, site_id=name)
    yield engine
    engine.dispose()


def test_a_takeover_does_not_end_transactions_under_other_leases(site: Engine) -> None:
    other = leases.acquire(site, "subscriber/policy", "a", ttl=60)
    leases.acquire(site, "server", "a", ttl=0)
    with reading(site) as connection:
        leases.check(connection, other)
        eventually(lambda: leases.acquire(site, "server", "b", ttl=60))
        leases.check(connection, other)


@pytest.mark.parametrize("generation", [2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**62])
def test_a_lease_works_with_each_generation_of_64_bits(site: Engine, generation: int) -> None:
    leases.acquire(site, "server", "a", ttl=60)
    with writing(site) as connection:
        connection.execute(update(tables.servers.leases).values(generation=generation - 1))
    lease = leases.acquire(site, "server", "a", ttl=60)
    assert lease is not None
    assert lease.generation == generation
    with writing(site) as connection:
        leases.check(connection, lease)
    leases.renew(site, lease, ttl=60)
