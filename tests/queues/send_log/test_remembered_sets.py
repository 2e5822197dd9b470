"""The destination sets that the taker of ticks remembers."""

import pytest
from sqlalchemy import Engine

from queues.database.transactions import writing
from queues.destinations import DestinationSet, destination_set, members
from queues.names import ClientName
from queues.send_log import destination_sets
from queues.send_log.destination_sets import SetDictionary, Sighting

CLIENT = ClientName("policy")


def sighting(made: DestinationSet) -> Sighting:
    return Sighting(made.number, CLIENT, made.text, rows=8)


def test_the_names_of_remembered_sets_have_a_limit(site: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(destination_sets, "MAX_REMEMBERED_NAMES", 100)
    dictionary = SetDictionary()
    made = [destination_set(CLIENT, [f"site-{number}-{name}" for name in range(40)]) for number in range(4)]
    seen = [sighting(each) for each in made]
    all_sets = {each.number: frozenset(members(each.text)) for each in made}
    with writing(site) as connection:
        assert dictionary.record(connection, seen, 1) == all_sets
    assert [dictionary.recall([each]) is None for each in seen] == [True, True, False, False]
    with writing(site) as connection:
        assert dictionary.record(connection, seen, 2) == all_sets
