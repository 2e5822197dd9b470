"""Destinations that are refused at transmit: the site itself, and with strict servers every unknown name."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine

from lr_client import LRMessageWithDestinations, RoutingQueueSenderClient
from queues.browse.api import Wanted, browse
from queues.destinations import destination_set
from queues.errors import DestinationsError, UnknownDestinationError
from queues.names import SEND_LOG_ENTRIES, ClientName, SiteId
from queues.send_log import destination_check
from queues.send_log.destination_check import refusal, refused_each
from queues.send_log.known_sites import KnownSites, record_known
from queues.send_log.outbox import NewEntry
from tests.seen_statements import seen_statements

client = RoutingQueueSenderClient("policy")
NAMES = st.sampled_from([SiteId(name) for name in ("paris", "tokyo", "lima", "oslo")])


def record(site: Engine, *peers: str, known_only: bool = True) -> None:
    with site.begin() as connection:
        record_known(connection, KnownSites(frozenset(map(SiteId, peers)), known_only=known_only))


def transmit(site: Engine, *destinations: str) -> None:
    with site.begin() as connection:
        client.transmit_log_entry_message(connection, b"x", destinations)


def stored(site: Engine) -> int:
    return len(browse(site, SEND_LOG_ENTRIES, Wanted(everything=True)).entries)


@given(st.lists(NAMES, min_size=1), st.none() | st.frozensets(NAMES))
def test_a_set_is_refused_for_the_own_site_or_for_a_name_outside_the_allowed_ones(
    names: list[SiteId], allowed: frozenset[SiteId] | None
) -> None:
    outside = set() if allowed is None else set(names) - allowed
    assert bool(refusal(names, SiteId("paris"), allowed)) == ("paris" in names or bool(outside))


@pytest.mark.parametrize("destinations", [["paris"], ["tokyo", "paris"]])
def test_the_own_site_is_refused_and_nothing_is_written(site: Engine, destinations: list[str]) -> None:
    with site.begin() as connection:
        with pytest.raises(UnknownDestinationError, match="'paris' is this site itself"):
            client.transmit_log_entry_message(connection, b"x", destinations)
        with pytest.raises(DestinationsError):
            client.transmit_log_entry_messages(
                connection, [LRMessageWithDestinations(b"1", ["tokyo"]), LRMessageWithDestinations(b"2", destinations)]
            )
    assert stored(site) == 0
    transmit(site, "tokyo")
    assert stored(site) == 1


def test_any_name_is_accepted_before_a_server_says_otherwise(site: Engine) -> None:
    transmit(site, "anything")
    record(site, "tokyo", known_only=False)
    transmit(site, "anything-else")
    assert stored(site) == 2


def test_an_unknown_name_is_refused_with_the_name_that_was_meant(site: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    transmit(site, "tokio")
    record(site, "tokyo", "lima")
    # A sender learns of the strict mode once its facts are old.
    monkeypatch.setattr(destination_check, "FRESH", 0.0)
    with pytest.raises(UnknownDestinationError, match=r"'tokio' \(did you mean 'tokyo'\?\): correct the name, or add"):
        transmit(site, "tokio")
    with pytest.raises(UnknownDestinationError, match=r"named 'zzz': correct"):
        transmit(site, "lima", "zzz")
    transmit(site, "tokyo", "lima")
    assert stored(site) == 2


def test_a_site_that_has_just_become_a_peer_is_accepted_at_once(site: Engine) -> None:
    record(site, "tokyo")
    transmit(site, "tokyo")
    record(site, "tokyo", "lima")
    transmit(site, "lima")
    assert stored(site) == 2


def test_two_databases_in_one_process_have_their_own_facts(new_site) -> None:
    paris, tokyo = new_site("paris"), new_site("tokyo")
    transmit(paris, "tokyo")
    transmit(tokyo, "paris")
    for engine, own in ((paris, "paris"), (tokyo, "tokyo")):
        with pytest.raises(UnknownDestinationError):
            transmit(engine, own)


def test_the_facts_are_read_once_and_not_with_each_call(site: Engine) -> None:
    transmit(site, "tokyo")
    statements = seen_statements(site)
    transmit(site, "tokyo")
    transmit(site, "lima")
    assert [each for each in statements if "lrq_known_sites" in each] == []


def test_each_request_has_its_own_sentence_and_equal_sets_are_checked_once(
    site: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []
    check_one = destination_check.refused_destinations

    def counted(connection: Connection, client: str, entries: Sequence[NewEntry]) -> str:
        checked.append(client)
        return check_one(connection, client, entries)

    monkeypatch.setattr(destination_check, "refused_destinations", counted)
    asked = [("a", ["lima"]), ("a", ["lima", "paris"]), ("b", ["paris"]), ("a", ["lima"]), ("b", ["lima"])]
    requests = [
        (name, [NewEntry(b"x", destination_set(ClientName(name), [each])) for each in destinations])
        for name, destinations in asked
    ]
    with site.begin() as connection:
        refused = refused_each(connection, requests)
    assert ["is this site itself" in words for words in refused] == [False, True, True, False, False]
    assert checked == ["a", "a", "b", "b"]
