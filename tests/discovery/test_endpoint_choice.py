"""Each session prefers one endpoint of a site, goes on to the next after a failure, and moves back later."""

import math
from collections import Counter
from dataclasses import replace

import pytest

from discovery.endpoint_choice import FIRST_PAUSE, LONGEST_PAUSE, EndpointChoice, first_choice, in_order, preferred

SESSIONS = [("paris", "tokyo", f"client{number}") for number in range(3_000)]
COUNTS = range(1, 6)
#: The preferred endpoints of the first sessions, of seven.
EXPECTED = [6, 6, 5, 6, 6, 0, 2, 5]


def choices(count: int) -> list[EndpointChoice]:
    """Return a used choice for each pair of a preferred and a present endpoint."""
    return [EndpointChoice(count, home, at, is_used=True) for home in range(count) for at in range(count)]


@pytest.mark.parametrize("count", COUNTS)
def test_sessions_spread_over_all_endpoints(count: int) -> None:
    users = Counter(preferred(session, count) for session in SESSIONS)
    assert set(users) == set(range(count))
    assert max(users.values()) < 1.2 * len(SESSIONS) / count


def test_the_preferred_endpoint_is_the_same_in_every_process_and_version() -> None:
    assert [preferred(session, 7) for session in SESSIONS[:8]] == EXPECTED


def test_each_part_of_a_session_counts_and_parts_do_not_run_together() -> None:
    names = [("a", "b", "c"), ("ab", "", "c"), ("a", "bc", ""), ("a", "c", "b"), ("b", "a", "c")]
    assert len({preferred(session, 1_000_003) for session in names}) == len(names)


@pytest.mark.parametrize("count", COUNTS)
def test_a_session_begins_at_its_preferred_endpoint(count: int) -> None:
    endpoints = [f"tcp://server{number}:7400" for number in range(count)]
    choice = first_choice(count)
    assert not choice.is_away
    for session in SESSIONS[:50]:
        assert in_order(session, endpoints)[choice.at] == endpoints[preferred(session, count)]


def test_nearer_endpoints_come_first_and_the_hash_decides_only_among_equally_near_ones() -> None:
    network = ["tcp://a:1", "tls://b:1", "tcp://c:1"]
    sockets = ["ipc:///run/a.sock", "ipc:///run/b.sock"]
    firsts = set()
    for session in SESSIONS[:100]:
        ordered = in_order(session, [*network, *sockets, "local:tokyo"])
        assert ordered[0] == "local:tokyo"
        assert (set(ordered[1:3]), set(ordered[3:])) == (set(sockets), set(network))
        assert ordered[3:] == in_order(session, network)
        firsts.add((ordered[1], ordered[3]))
    assert len(firsts) == len(sockets) * len(network)


def test_the_order_goes_round_the_list_so_that_the_load_of_a_lost_server_follows_the_list() -> None:
    endpoints = [f"tcp://server{number}:7400" for number in range(4)]
    for session in SESSIONS[:50]:
        ordered = in_order(session, endpoints)
        first = endpoints.index(ordered[0])
        assert list(ordered) == endpoints[first:] + endpoints[:first]


@pytest.mark.parametrize("count", range(2, 6))
def test_failures_lead_round_all_endpoints_and_no_failure_leads_twice_to_the_same(count: int) -> None:
    for choice in choices(count):
        seen, at = [choice.at], choice
        for _ in range(count - 1):
            at = at.failed(0.0).used()
            seen.append(at.at)
        assert sorted(seen) == list(range(count))
        assert at.failed(0.0).at == choice.at


def test_the_only_endpoint_is_kept_after_a_failure() -> None:
    choice = EndpointChoice(1, 0, 0, is_used=True)
    assert choice.failed(5.0) == choice
    assert not choice.is_due(math.inf)


@pytest.mark.parametrize("count", range(2, 6))
def test_a_failure_of_an_endpoint_that_was_not_used_changes_nothing(count: int) -> None:
    for choice in choices(count):
        unused = replace(choice, is_used=False)
        assert unused.failed(5.0) == unused


@pytest.mark.parametrize("count", range(2, 6))
def test_an_absent_session_looks_for_its_preferred_endpoint_after_the_pause_only(count: int) -> None:
    for home in range(count):
        away = EndpointChoice(count, home, home, is_used=True).failed(1_000.0)
        assert away.is_away
        assert not away.is_due(1_000.0 + FIRST_PAUSE - 0.001)
        assert away.is_due(1_000.0 + FIRST_PAUSE)
        assert not away.moved_back(1_000.0 + FIRST_PAUSE).is_due(math.inf)


def test_looks_in_vain_become_rarer_up_to_a_limit() -> None:
    away, now, pauses = EndpointChoice(2, 0, 0, is_used=True).failed(0.0), 0.0, []
    for _ in range(8):
        pauses.append(away.look_from - now)
        now = away.look_from
        away = away.missed(now)
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert LONGEST_PAUSE == 3600


def test_a_preferred_endpoint_that_fails_soon_after_a_move_back_is_looked_for_more_rarely() -> None:
    choice, now = EndpointChoice(2, 0, 0, is_used=True).failed(0.0), 0.0
    pauses = []
    for _ in range(8):
        now = choice.look_from
        choice = choice.moved_back(now).used().failed(now + 1)
        pauses.append(choice.look_from - now - 1)
    assert pauses == [120, 240, 480, 960, 1920, 3600, 3600, 3600]
    steady = choice.moved_back(now).used().failed(now + LONGEST_PAUSE)
    assert steady.pause == FIRST_PAUSE


def test_an_outage_of_all_endpoints_makes_looks_no_rarer() -> None:
    choice = first_choice(3)
    for second in range(600):
        choice = choice.used().failed(float(second))
    assert choice.pause == FIRST_PAUSE


def test_a_move_back_is_no_failure() -> None:
    away = EndpointChoice(3, 1, 1, is_used=True).failed(0.0).used()
    back = away.moved_back(100.0)
    assert back.at == 1
    assert back.failed(100.0) == back
    assert back.used().failed(200.0).at == 2


def test_the_spread_shortens_the_pause() -> None:
    choice = EndpointChoice(2, 0, 0, is_used=True)
    assert choice.failed(10.0, 0.5).look_from == 10.0 + FIRST_PAUSE / 2
    assert choice.failed(10.0).missed(70.0, 0.5).look_from == 70.0 + FIRST_PAUSE
