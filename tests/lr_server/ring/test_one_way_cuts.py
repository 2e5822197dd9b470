"""Cuts of any directions between three members, with the clocks of the members, in a time that the test moves.

A member that hears no answers asks on and on. The ballots must not end the lead of members that hear each other.
"""

import random
from collections.abc import Collection, Iterator
from itertools import combinations

import pytest

from lr_server.protocol.agreement.generations import LEADING_RANKS, RANKS
from lr_server.ring import timers
from lr_server.ring.timers import RingTimers, pace_of
from tests.lr_server.ring.timed_ring import PACE, TimedRing

Way = tuple[int, int]

WAYS = [(one, other) for one in RANKS for other in RANKS if one != other]
#: All ways to and from rank 0.
OF_RANK_0 = {way for way in WAYS if 0 in way}
ALL_CUTS = [frozenset(cuts) for number in range(len(WAYS) + 1) for cuts in combinations(WAYS, number)]
#: The longest time until a working pair takes entries: a stall, a lease, and the longest pause after denials.
LONGEST = PACE.stall + PACE.lease + PACE.longest_retry


@pytest.fixture(params=[1, 2])
def ring(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> TimedRing:
    """Give a ring that rank 0 leads; the numbers for its pauses are always the same ones."""
    chance = random.Random(request.param)
    # Threads that earlier tests have left may draw from the numbers of all.
    monkeypatch.setattr(timers, "jittered", lambda delay: delay * (1.0 - 0.5 * chance.random()))
    made = TimedRing()
    made.let(12.0)
    assert made.leads == [2]
    return made


def hear_each_other(cuts: Collection[Way], one: int, other: int) -> bool:
    return (one, other) not in cuts and (other, one) not in cuts


def has_pair(cuts: Collection[Way]) -> bool:
    """Return whether a member that may lead and another one hear each other."""
    pairs: Iterator[Way] = (way for way in WAYS if way[0] in LEADING_RANKS)
    return any(hear_each_other(cuts, *pair) for pair in pairs)


@pytest.mark.long
@pytest.mark.parametrize("ring", [1], indirect=True)
@pytest.mark.parametrize("cuts", ALL_CUTS, ids=lambda cuts: " ".join(f"{one}>{other}" for one, other in sorted(cuts)))
@pytest.mark.parametrize(
    "away", [0.0, pytest.param(15.0, marks=pytest.mark.nightly)], ids=["led by 0", "rank 0 was away"]
)
def test_any_cut_takes_few_generations_and_leaves_a_working_pair_at_work(
    ring: TimedRing, cuts: frozenset[Way], away: float
):
    ring.cut_ways(OF_RANK_0 if away else ())
    ring.let(away)
    since, leads, promised = ring.clock.now, len(ring.leads), ring.promised
    ring.cut_ways(cuts)
    ring.let(2 * LONGEST)
    assert len(ring.leads) - leads <= 2
    assert ring.promised - promised <= 4
    if has_pair(cuts):
        assert ring.longest_standstill(since) <= LONGEST


@pytest.mark.parametrize("cuts", [{(2, 1), (1, 0)}, {(0, 1), (2, 1), (1, 0)}], ids=["deaf to rank 2", "deaf to both"])
def test_rank_0_leads_again_beside_a_rank_1_that_asks_rank_2_and_hears_no_answer(ring: TimedRing, cuts: set[Way]):
    ring.cut_ways(OF_RANK_0 | cuts)
    ring.let(30.0)
    since, promised = ring.clock.now, ring.promised
    ring.cut_ways(cuts)
    ring.let(30.0)
    assert len(ring.leads) == 2
    assert ring.promised <= promised + 2
    assert ring.longest_standstill(since) <= LONGEST


def test_rank_1_leads_on_beside_a_level_rank_0_that_no_answer_reaches(ring: TimedRing):
    ring.cut_ways({(0, 1), (2, 0)})
    ring.let(LONGEST)
    leads, since = len(ring.leads), ring.clock.now
    ring.let(60.0)
    assert len(ring.leads) == leads
    assert ring.leads[-1] % 2 == 1
    assert ring.longest_standstill(since) <= PACE.beat


def test_a_longer_lease_at_the_leader_alone_takes_no_generation(ring: TimedRing):
    ring.timers[0] = RingTimers(pace_of(lease=10 * PACE.lease, stall=PACE.stall), ring.clock)
    ring.rest(30 * PACE.lease)
    assert (ring.promised, ring.leads) == (2, [2])


def test_a_short_stall_takes_no_generation(ring: TimedRing):
    ring.timers[0] = RingTimers(pace_of(lease=PACE.lease, stall=0.3), ring.clock)
    ring.cut_ways(OF_RANK_0)
    ring.let(15.0)
    ring.cut_ways(())
    ring.let(15.0)
    promised = ring.promised
    ring.rest(10 * PACE.lease)
    assert ring.promised == promised
