"""Ranges of sessions: every range is led, loads are even, few ranges move, and every server computes the same."""

import itertools
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery.ranges import plan, range_of, ranks, share
from queues.leadership import Lease, RangeRow, ServerRow, ServersView, range_lease

NAMES = ["one:1", "two:2", "three:3", "four:4", "five:5", "six:6", "seven:7"]
servers = st.sets(st.sampled_from(NAMES), min_size=1)
leaderships = st.lists(st.sampled_from([None, *NAMES, "gone:9"]), min_size=1, max_size=40)


def assert_even(found: Sequence[str | None], living: set[str]) -> None:
    loads = Counter(dict.fromkeys(living, 0))
    loads.update(found)
    assert set(loads) == living, "each range has a living leader"
    assert max(loads.values()) - min(loads.values()) <= 1


def kept(before: Sequence[str | None], after: Sequence[str | None]) -> int:
    return sum(was == now for was, now in zip(before, after, strict=True))


@pytest.mark.parametrize("count", [1, 2, 3, 64, 4096])
def test_every_session_has_one_range(count: int):
    for number in range(200):
        assert 0 <= range_of("policy", f"site{number}", count) < count


def test_the_range_of_a_session_never_changes():
    assert [range_of("policy", site, 64) for site in ("tokyo", "lima", "oslo")] == [34, 5, 43]
    assert [range_of(client, "tokyo", 64) for client in ("rules", "zürich")] == [23, 1]


def test_a_doubled_number_of_ranges_halves_each_range():
    for number in range(500):
        assert range_of("policy", f"site{number}", 128) // 2 == range_of("policy", f"site{number}", 64)


def test_sessions_spread_over_the_ranges():
    loads = Counter(range_of(f"client{number % 7}", f"site{number}", 64) for number in range(6400))
    assert len(loads) == 64
    assert max(loads.values()) < 2 * 100


@given(leaderships, servers)
def test_all_ranges_are_led_and_loads_differ_by_one_at_most(leaders: list[str | None], living: set[str]):
    assert_even(share(leaders, living), living)


@given(leaderships, servers, st.randoms(use_true_random=False))
def test_the_order_of_the_servers_does_not_matter(leaders: list[str | None], living: set[str], chance: random.Random):
    order = [*living, *living]
    chance.shuffle(order)
    assert share(leaders, order) == share(leaders, living)


@given(leaderships, servers)
def test_a_share_that_is_reached_stays(leaders: list[str | None], living: set[str]):
    found = share(leaders, living)
    assert share(found, living) == found


def _most_kept(leaders: Sequence[str | None], living: set[str]) -> int:
    """The best of all even distributions, by trying each choice of the servers with the larger load."""
    least, more = divmod(len(leaders), len(living))
    led = Counter(leader for leader in leaders if leader in living)
    return max(
        sum(min(led[name], least + (name in larger)) for name in living)
        for larger in itertools.combinations(sorted(living), more)
    )


@given(leaderships, servers)
def test_living_servers_keep_as_many_ranges_as_any_even_share_allows(leaders: list[str | None], living: set[str]):
    assert kept(leaders, share(leaders, living)) == _most_kept(leaders, living)


def test_every_small_site_is_shared_evenly_with_the_fewest_moves():
    for count in range(1, 6):
        for leaders in itertools.product([None, *NAMES[:3]], repeat=count):
            for size in (1, 2, 3):
                for living in map(set, itertools.combinations(NAMES[:3], size)):
                    found = share(leaders, living)
                    assert_even(found, living)
                    assert kept(leaders, found) == _most_kept(leaders, living)
                    assert share(found, living) == found


@pytest.mark.parametrize("count", [1, 5, 64, 100])
def test_servers_that_come_and_go_move_only_the_ranges_that_they_must(count: int):
    found = share([None] * count, NAMES[:1])
    for size in range(2, 8):
        joined = share(found, NAMES[:size])
        assert kept(found, joined) == count - count // size, "only the newcomer's ranges move"
        assert all(was == now or now == NAMES[size - 1] for was, now in zip(found, joined, strict=True))
        found = joined
    for size in range(6, 0, -1):
        left = share(found, NAMES[:size])
        lost = found.count(NAMES[size])
        assert kept(found, left) == count - lost, "only the ranges of the server that left move"
        found = left


def test_without_a_living_server_no_range_has_a_leader():
    assert share(["one:1", None], []) == [None, None]
    assert ranks(["one:1"], [], 0) == []


@given(leaderships, servers)
def test_rank_zero_leads_and_each_next_rank_follows_after_the_end_of_those_before(
    leaders: list[str | None], living: set[str]
):
    for number in range(min(len(leaders), 3)):
        order = ranks(leaders, living, number)
        assert sorted(order) == sorted(living)
        for rank, server in enumerate(order):
            assert share(leaders, living - set(order[:rank]))[number] == server


def test_every_process_computes_the_same_share():
    program = (
        "from discovery.ranges import range_of, share;"
        "print(share([None] * 64, {'a:1', 'b:2', 'c:3', 'd:4', 'e:5'}), range_of('policy', 'tokyo', 64))"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }  # fmt: skip
    assert len(answers) == 1


# --- one turn of a server

NOW = 1_000


def view(
    *rows: tuple[str, int], living: Sequence[str], expired: Sequence[str] = (), sequencer: str = ""
) -> ServersView:
    expiries = [*((name, NOW + 1) for name in living), *((name, NOW) for name in expired)]
    return ServersView(
        NOW,
        tuple(ServerRow(name, (), 0, expiry) for name, expiry in expiries),
        tuple(RangeRow(number, server, generation) for number, (server, generation) in enumerate(rows)),
        Lease("server", sequencer, 9) if sequencer else None,
        "branch",
    )  # fmt: skip


def held(rows: ServersView, me: str) -> dict[int, Lease]:
    return {row.number: range_lease(row) for row in rows.ranges if row.server == me}


def numbers(found: Sequence[RangeRow | Lease]) -> list[str]:
    return [f"range {each.number}" if isinstance(each, RangeRow) else each.name for each in found]


def test_free_ranges_are_claimed():
    turn = plan(view(("", 0), ("", 3), living=["a"]), "a", {})
    assert (turn.kept, turn.releases, turn.awaited) == ({}, (), False)
    assert turn.claims == (RangeRow(0, "", 0), RangeRow(1, "", 3))


def test_ranges_of_an_expired_server_are_claimed_and_those_of_a_living_one_awaited():
    shared = view(("b", 1), ("b", 2), ("c", 3), ("c", 4), living=["a", "b"], expired=["c"])
    assert plan(shared, "a", {}).claims == (RangeRow(2, "c", 3), RangeRow(3, "c", 4))
    full = view(("b", 1), ("b", 2), living=["a", "b"])
    turn = plan(full, "a", {})
    assert (turn.claims, turn.awaited) == ((), True)


def test_a_patient_server_claims_released_ranges_only():
    mixed = view(("c", 1), ("", 2), living=["a"], expired=["c"])
    turn = plan(mixed, "a", {}, patient=True)
    assert turn.claims == (RangeRow(1, "", 2),)
    assert turn.awaited


def test_a_range_is_released_for_a_newcomer_only_by_its_leader():
    rows = view(("a", 1), ("a", 2), ("a", 3), ("a", 4), living=["a", "b"])
    turn = plan(rows, "a", held(rows, "a"))
    assert len(turn.kept) == len(turn.releases) == 2
    assert not turn.claims
    assert {f"range {number}" for number in turn.kept} | set(numbers(turn.releases)) == {
        f"range {number}" for number in range(4)
    }


def test_a_range_that_another_server_has_acquired_is_neither_kept_nor_released():
    before = held(view(("a", 1), ("a", 2), living=["a"]), "a")
    now = view(("b", 5), ("a", 2), living=["a", "b"])
    turn = plan(now, "a", before)
    assert turn.kept == {1: Lease("range 1", "a", 2)}
    assert turn.releases == ()


def test_an_acquisition_whose_answer_was_lost_is_claimed_again():
    turn = plan(view(("a", 7), living=["a"]), "a", {})
    assert turn.claims == (RangeRow(0, "a", 7),)


def test_an_acquisition_whose_answer_was_lost_is_released_if_another_server_should_lead():
    rows = view(("a", 7), ("a", 8), living=["a", "b"])
    turn = plan(rows, "a", {})
    assert len(turn.releases) == 1
    assert len(turn.claims) == 1


@pytest.mark.parametrize("expired", [["a"], []])
def test_a_server_that_is_not_living_claims_nothing_and_keeps_what_no_other_has_acquired(expired: list[str]):
    rows = view(("a", 1), ("b", 5), ("", 3), living=["b"], expired=expired)
    turn = plan(rows, "a", {0: Lease("range 0", "a", 1), 1: Lease("range 1", "a", 2)})
    assert turn.kept == {0: Lease("range 0", "a", 1)}
    assert (turn.releases, turn.claims) == ((), ())


def test_an_older_lrq_that_owns_the_site_leaves_no_range():
    rows = view(("a", 1), ("", 2), living=["a"], sequencer="older")
    turn = plan(rows, "a", held(rows, "a"))
    assert turn.kept == {}
    assert numbers(turn.releases) == ["range 0"]
    assert turn.claims == ()


@pytest.mark.parametrize("sequencer", ["a", "b", "c"])
def test_a_sequencer_with_a_row_is_no_older_lrq_even_after_its_expiry(sequencer: str):
    rows = view(("a", 1), living=["a", "b"], expired=["c"], sequencer=sequencer)
    assert plan(rows, "a", held(rows, "a")).kept == {0: Lease("range 0", "a", 1)}


@given(leaderships, servers)
def test_the_turns_of_all_servers_together_lead_each_range_once_and_end(leaders: list[str | None], living: set[str]):
    """Servers act one after the other; no claim ever takes a range from a living leader."""
    rows = [RangeRow(number, leader or "", number) for number, leader in enumerate(leaders)]
    counter = len(rows)
    for _ in range(3):
        for me in sorted(living):
            now = view(*((row.server, row.generation) for row in rows), living=sorted(living), expired=["gone:9"])
            turn = plan(now, me, held(now, me))
            for lease in turn.releases:
                number = int(lease.name.split()[1])
                assert rows[number].server == me
                rows[number] = rows[number]._replace(server="")
            for claimed in turn.claims:
                assert rows[claimed.number].server not in living - {me}
                counter += 1
                rows[claimed.number] = RangeRow(claimed.number, me, counter)
    assert_even([row.server for row in rows], living)
