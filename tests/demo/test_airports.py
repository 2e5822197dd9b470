"""Which sites are owed which airports."""

from lrq_cli.demo.airports import HUBS, REGIONS, Airport, all_airports, destinations

WORLD = [Airport(**facts) for facts in all_airports()]


def test_every_airport_of_the_world_is_owed_to_somebody():
    assert len(WORLD) > 28_000
    assert {airport.tz for airport in WORLD if not destinations(airport)} == set()


def test_only_hubs_are_owed_to_more_than_one_site():
    assert {airport.icao for airport in WORLD if len(destinations(airport)) > 1} == HUBS
    assert all(destinations(airport) == list(REGIONS) for airport in WORLD if airport.icao in HUBS)


def test_an_airport_is_owed_to_the_site_whose_region_it_is_in():
    owed = {airport.icao: destinations(airport) for airport in WORLD}
    assert (owed["NZQN"], owed["SPZO"], owed["LFPO"], owed["FIMP"]) == (["tokyo"], ["lima"], ["nairobi"], ["nairobi"])
