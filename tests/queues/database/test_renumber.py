"""A new branch of the log gives every range a new generation."""

import pytest
from sqlalchemy import Engine, func, select, update

from lr_server.source.incarnation import adopt
from queues.database import leases, servers, tables
from queues.database.servers import renumber
from queues.database.transactions import writing
from queues.leadership import RangeRow
from tests.discovery.members import claim, counted, refused, register


def rows(site: Engine) -> dict[int, RangeRow]:
    return {row.number: row for row in servers.look(site).ranges}


@pytest.fixture
def led(site: Engine) -> Engine:
    """Give a site with four ranges: two servers lead one range each, and two ranges are free."""
    register(site, "a", "b")
    claim(site, "a", 0)
    claim(site, "b", 2)
    return site


def test_every_range_gets_a_generation_of_its_own_above_all_before(led: Engine) -> None:
    newest = counted(led)
    with writing(led) as connection:
        renumber(connection)
    generations = [row.generation for row in rows(led).values()]
    assert min(generations) > newest
    assert len(set(generations)) == 4
    assert counted(led) >= max(generations)


def test_leaders_stay_and_find_that_their_generation_is_lost(led: Engine) -> None:
    before, held = rows(led), claim(led, "a", 1)
    with writing(led) as connection:
        renumber(connection)
    assert {number: row.server for number, row in rows(led).items()} == {0: "a", 1: "a", 2: "b", 3: ""}
    assert all(rows(led)[number].generation > row.generation for number, row in before.items())
    lost = refused(led, *held)
    assert lost is not None
    assert (lost.held, lost.current) == (held[0].generation, rows(led)[1].generation)


def test_a_later_acquisition_is_above_the_new_generations(led: Engine) -> None:
    with writing(led) as connection:
        renumber(connection)
    newest = max(row.generation for row in rows(led).values())
    (again,) = claim(led, "a", 0)
    assert again.generation > newest


def test_a_site_without_ranges_takes_no_generation(site: Engine) -> None:
    with writing(site) as connection:
        renumber(connection)
    assert counted(site) == 0


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_the_adoption_of_another_incarnation_renumbers_all_ranges_with_the_branch(led: Engine) -> None:
    lease = leases.acquire(led, "server", "a", ttl=60)
    assert lease is not None
    branch, before, newest = adopt(led, lease), rows(led), counted(led)
    assert adopt(led, lease) == branch
    assert rows(led) == before
    last = select(func.max(tables.site.branches.c.number)).scalar_subquery()
    with writing(led) as connection:
        other = (
            update(tables.site.branches)
            .where(tables.site.branches.c.number == last)
            .values(incarnation="other/1/other")
        )
        connection.execute(other)
    assert adopt(led, lease) != branch
    assert min(row.generation for row in rows(led).values()) > newest
