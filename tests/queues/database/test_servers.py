"""Servers and ranges in the database: one leader a range, under generations that only rise."""

import pytest
from sqlalchemy import Engine, update

from queues.database import leases, servers, tables
from queues.database.leases import Lease
from queues.database.transactions import writing
from queues.errors import ConfigurationError, OwnershipLostError
from queues.leadership import RangeRow


def register(site: Engine, *names: str, count: int = 4, term: float = 60) -> None:
    for name in names:
        servers.register(site, name, [f"tcp://{name}:1"], count=count, term=term)


def claim(site: Engine, server: str, *numbers: int) -> list[Lease]:
    view = servers.look(site)
    return servers.claim(site, server, [row for row in view.ranges if row.number in numbers])


def check(site: Engine, *held: Lease) -> None:
    with writing(site) as connection:
        servers.check_ranges(connection, held)


def test_a_new_site_has_no_servers_and_no_ranges(site: Engine) -> None:
    view = servers.look(site)
    assert (view.servers, view.ranges, view.sequencer) == ((), (), None)
    assert view.branch


def test_a_registered_server_lives_until_its_term_ends_and_the_ranges_are_free(site: Engine) -> None:
    register(site, "a", count=3)
    view = servers.look(site)
    assert list(view.living) == ["a"]
    assert view.living["a"].endpoints == ("tcp://a:1",)
    assert view.ranges == tuple(RangeRow(number, "", 0) for number in range(3))


def test_a_claimed_range_is_led_under_a_new_generation(site: Engine) -> None:
    register(site, "a")
    first, second = claim(site, "a", 0, 2)
    assert (first.name, second.name, first.owner) == ("range 0", "range 2", "a")
    assert 0 < first.generation < second.generation
    check(site, first, second)


def test_a_range_of_a_living_server_cannot_be_claimed(site: Engine) -> None:
    register(site, "a", "b")
    held = claim(site, "a", 1)
    assert claim(site, "b", 1) == []
    check(site, *held)


def test_a_released_range_can_be_claimed_and_its_former_leader_is_refused(site: Engine) -> None:
    register(site, "a", "b")
    (former,) = claim(site, "a", 1)
    servers.release(site, [former])
    (later,) = claim(site, "b", 1)
    assert later.generation > former.generation
    check(site, later)
    with pytest.raises(OwnershipLostError, match=f"range 1: generation {former.generation} was taken over"):
        check(site, former)


def test_a_renewal_is_refused_after_the_expiry(site: Engine) -> None:
    register(site, "a")
    assert servers.renew(site, "a", 60)
    with writing(site) as connection:
        connection.execute(update(tables.servers.servers).values(expires_us=1))
    assert not servers.renew(site, "a", 60)


def test_ranges_of_an_expired_server_can_be_claimed(site: Engine) -> None:
    register(site, "a", "b")
    (former,) = claim(site, "a", 1)
    assert servers.remove(site, "a")
    assert not servers.remove(site, "a")
    check(site, former)
    (later,) = claim(site, "b", 1)
    assert later.generation > former.generation


def test_the_lease_of_the_sequencer_and_the_ranges_share_one_counter(site: Engine) -> None:
    register(site, "a")
    (led,) = claim(site, "a", 3)
    lease = leases.acquire(site, "server", "a", ttl=60)
    assert lease.generation == led.generation + 1
    assert servers.look(site).sequencer == lease
    (again,) = claim(site, "a", 0)
    assert again.generation > lease.generation


def test_another_number_of_ranges_is_refused_while_other_servers_live(site: Engine) -> None:
    register(site, "a", count=4)
    with pytest.raises(ConfigurationError, match="share 4 ranges, not 8: set `ranges = 4`"):
        register(site, "b", count=8)


def test_a_server_alone_stores_its_number_of_ranges_and_former_leaders_are_refused(site: Engine) -> None:
    register(site, "a", count=4)
    held = claim(site, "a", 0, 3)
    servers.remove(site, "a")
    register(site, "b", count=2)
    assert [row.number for row in servers.look(site).ranges] == [0, 1]
    for lease in held:
        with pytest.raises(OwnershipLostError):
            check(site, lease)


def test_rows_of_servers_that_are_gone_are_bounded_and_the_sequencer_keeps_its_row(site: Engine) -> None:
    register(site, "sequencer")
    leases.acquire(site, "server", "sequencer", ttl=3600)
    servers.remove(site, "sequencer")
    for number in range(40):
        register(site, f"server {number}")
        servers.remove(site, f"server {number}")
    register(site, "living")
    found = {row.server for row in servers.look(site).servers}
    assert len(found) == 34
    assert found > {"sequencer", "living", "server 39"}
    assert not servers.look(site).has_older_sequencer


def test_rows_of_servers_that_expired_an_hour_ago_are_removed(site: Engine) -> None:
    register(site, "a")
    with writing(site) as connection:
        connection.execute(
            update(tables.servers.servers).values(expires_us=tables.servers.servers.c.expires_us - 7200 * 10**6)
        )
    register(site, "b")
    assert [row.server for row in servers.look(site).servers] == ["b"]


def test_a_server_that_is_not_living_is_renewed_by_a_new_registration_only(site: Engine) -> None:
    register(site, "a")
    held = claim(site, "a", 0)
    servers.remove(site, "a")
    assert not servers.renew(site, "a", 60)
    register(site, "a")
    assert servers.renew(site, "a", 60)
    check(site, *held)


def test_a_removal_spares_a_server_that_has_renewed_since_the_look(site: Engine) -> None:
    register(site, "a", term=60)
    seen = servers.look(site).living["a"]
    servers.renew(site, "a", 120)
    assert not servers.remove(site, "a", seen=seen)
    assert "a" in servers.look(site).living


def test_no_range_needs_no_check(site: Engine) -> None:
    check(site)
