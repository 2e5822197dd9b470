"""The sites that each airport of the demonstration goes to."""

from lrq.demo.airports import HUBS, REGIONS, Airport, all_airports, destinations

WORLD = [Airport(**facts) for facts in all_airports()]


def test_every_airport_of_the_world_goes_to_a_site():
    assert len(WORLD) > 28_000
    assert {airport.tz for airport in WORLD if not destinations(airport)} == set()


def test_only_hubs_go_to_more_than_one_site():
    assert {airport.icao for airport in WORLD if len(destinations(airport)) > 1} == HUBS
    assert all(destinations(airport) == list(REGIONS) for airport in WORLD if airport.icao in HUBS)


def test_an_airport_goes_to_the_site_of_its_region():
    owed = {airport.icao: destinations(airport) for airport in WORLD}
    assert (owed["NZQN"], owed["SPZO"], owed["LFPO"], owed["FIMP"]) == (["tokyo"], ["lima"], ["nairobi"], ["nairobi"])
