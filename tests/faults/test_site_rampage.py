"""Servers of three sites are killed and stopped at random: each entry arrives once, under one leader at any time."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

import queues
from tests.faults.run import databases
from tests.faults.site_ledger import (
    Led,
    Moved,
    longest_standstill,
    problems_of_entries,
    problems_of_leaders,
    problems_of_moves,
    problems_of_order,
)
from tests.faults.site_plan import SINKS, SOURCE, SitePlan
from tests.faults.site_rampage import site_rampage

MOMENTS = 4
#: Room for the takeovers of a busy machine.
LEASE_SECONDS = 6.0


@pytest.mark.processes
@pytest.mark.long
@pytest.mark.timeout(500)
def test_killed_and_stopped_servers_and_producers_never_lose_double_or_reorder_an_entry(
    new_database: Callable[[], str], folder: Path, seed: int
) -> None:
    urls = {site: new_database() for site in (SOURCE, *SINKS)}
    plan = SitePlan(str(folder), urls, seed, lease_seconds=LEASE_SECONDS)
    verdict = site_rampage(plan, MOMENTS)
    print(verdict)
    assert verdict.ok, str(verdict)
    assert verdict.kills.total() == MOMENTS
    # In a short run perhaps no entry names the sites of some sessions.
    assert 12 <= verdict.facts["sessions"] <= 24
    assert verdict.facts["servers that led"] >= 3
    assert verdict.facts["delivered"] > 50
    assert verdict.facts["requests"] > 5


@pytest.mark.postgresql
def test_a_run_by_hand_has_the_connections_that_its_servers_may_open(tmp_path: Path) -> None:
    with databases("postgresql", tmp_path, SOURCE) as urls:
        plan = SitePlan(str(tmp_path), dict.fromkeys((SOURCE, *SINKS), *urls), seed=1)
        engine = queues.create_engine(urls[0])
        with engine.connect() as connection:
            given = int(connection.execute(text("SHOW max_connections")).scalar_one())
        engine.dispose()
    assert given > sum(plan.settings(name).max_connections for name in plan.server_names)


def moved(*steps: tuple[int, int]) -> list[Moved]:
    return [Moved("policy", generation, seq, float(number)) for number, (generation, seq) in enumerate(steps)]


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ([b"a:1", b"a:2"], []),
        ([b"a:1"], ["lacks 1"]),
        ([b"a:1", b"a:2", b"a:2"], ["too many", "after number 2"]),
        ([b"a:2", b"a:1"], ["after number 2"]),
        ([b"a:1", b"a:2", b"b:1"], ["too many"]),
    ],
)
def test_lost_doubled_and_misplaced_entries_are_told(entries: list[bytes], told: list[str]) -> None:
    found = problems_of_entries("policy at tokyo", Counter([b"a:1", b"a:2"]), entries)
    assert len(found) == len(told)
    assert all(words in problem for words, problem in zip(told, found, strict=True))


def test_two_orders_at_two_sinks_are_told() -> None:
    assert problems_of_order("policy", [b"a:1", b"b:1", b"a:2"], [b"a:1", b"a:2"]) == []
    assert problems_of_order("policy", [b"a:1", b"b:1"], [b"b:1", b"a:1"]) != []


@pytest.mark.parametrize(
    ("led", "faults"),
    [
        ([Led(1, "a", 5), Led(2, "b", 6), Led(1, "b", 7)], 0),
        ([Led(1, "a", 5), Led(1, "b", 4)], 1),
        ([Led(1, "a", 5), Led(2, "b", 5)], 1),
        ([Led(1, "a", 5), Led(1, "b", 5)], 1),
    ],
)
def test_a_generation_that_returns_or_has_two_leaders_is_told(led: list[Led], faults: int) -> None:
    assert len(problems_of_leaders(led)) == faults


def test_the_times_of_two_records_of_one_leader_make_no_fault() -> None:
    assert problems_of_leaders([Led(1, "a", 5, at=1.0), Led(1, "a", 5, at=2.0)]) == []


@pytest.mark.parametrize(
    ("moves", "faults"),
    [
        (moved((5, 1), (5, 2), (7, 2), (7, 3)), 0),
        (moved((7, 1), (5, 2)), 1),
        (moved((5, 2), (7, 1)), 1),
        (moved((6, 1)), 1),
    ],
)
def test_a_session_that_goes_back_or_has_an_unknown_leader_is_told(moves: list[Moved], faults: int) -> None:
    led = [Led(1, "a", 5), Led(2, "b", 6), Led(1, "b", 7)]
    assert len(problems_of_moves("policy at tokyo", moves, led, 1)) == faults


def test_the_longest_standstill_counts_moves_of_the_position_only() -> None:
    assert longest_standstill([moved((5, 1), (5, 2), (7, 2), (7, 2))]) == 1.0
    assert longest_standstill([[Moved("policy", 5, 1, 0.0), Moved("policy", 7, 4, 3.5)]]) == 3.5
