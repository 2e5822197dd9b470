"""The pause before the database is used again."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lr_server.source.pacing import LONGEST_REST, RECENT, SOON, Taken, longer, may_notify, pause_after, rest_after

_LONGEST = 0.2
_SECONDS = st.floats(0, 60)


def ticks(
    rows_a_second: float, *, sites: int = 1, took: float = 0.0, every: float = 0.01, count: int = RECENT
) -> list[Taken]:
    """Return ticks that were taken one after the other, at this load."""
    return [Taken(number * every, took, round(rows_a_second * every), sites) for number in range(count)]


@st.composite
def recent(draw: st.DrawFn) -> list[Taken]:
    """Draw ticks of any load."""
    ended = sorted(draw(st.lists(_SECONDS, min_size=1, max_size=RECENT)))
    return [Taken(at, draw(_SECONDS), draw(st.integers(1, 10**6)), draw(st.integers(0, 500))) for at in ended]


@given(recent())
def test_a_pause_is_within_its_bounds(taken: list[Taken]):
    assert SOON <= pause_after(taken, _LONGEST) <= _LONGEST


@given(recent())
def test_at_least_half_of_the_time_is_left_to_other_work(taken: list[Taken]):
    middle = sorted(tick.took for tick in taken)[(len(taken) - 1) // 2]
    assert pause_after(taken, 60.0) >= middle


def test_a_quiet_log_has_the_shortest_pause():
    assert pause_after(ticks(0.0), _LONGEST) == SOON
    assert pause_after(ticks(2_500), _LONGEST) == SOON


def test_the_pause_grows_with_the_rows_per_second():
    pauses = [pause_after(ticks(rate), _LONGEST) for rate in (1_000, 6_000, 10_000, 100_000)]
    assert pauses == pytest.approx([SOON, 0.015, 0.03, _LONGEST])


def test_the_pause_grows_with_the_number_of_sites():
    pauses = [pause_after(ticks(2_000, sites=sites), _LONGEST) for sites in (0, 1, 3, 7, 500)]
    assert pauses == pytest.approx([SOON, SOON, 0.015, 0.09, _LONGEST])


@given(st.floats(5_000, 50_000), st.floats(0.05, 0.2))
def test_the_pause_does_not_grow_with_ticks_that_are_slow_by_their_size(rate: float, every: float):
    took = 9e-6 * rate * every
    pause = pause_after(ticks(rate, took=took, every=every), _LONGEST)
    assert pause == pytest.approx(min(3.75e-6 * (rate - 2_000), _LONGEST), rel=0.05)


def test_one_slow_tick_does_not_lengthen_the_pause():
    slow = Taken(0.02, 0.5, 1, 1)
    assert pause_after([*ticks(0.0, count=2), slow], _LONGEST) < 0.01


def test_ticks_of_one_moment_count_as_no_load():
    assert pause_after([Taken(1.0, 0.0, 1_000, 1)] * 2, _LONGEST) == SOON


def test_a_longest_pause_below_the_shortest_one_wins():
    assert pause_after([Taken(1.0, 1.0, 1, 1)], 0.001) == 0.001


def with_transactions(a_second: int, *, took: float, rows: int = 1) -> list[Taken]:
    """Return ticks of one transaction each, at this rate."""
    return [Taken(number / a_second, took, rows, 1, 1) for number in range(RECENT)]


def test_few_transactions_may_notify():
    assert may_notify([Taken(5.0, 0.5, 10, 1, 1)])
    assert may_notify(with_transactions(3, took=0.1, rows=10))
    assert may_notify(with_transactions(250, took=0.001, rows=10))
    assert may_notify(with_transactions(900, took=0.0005))


def test_many_transactions_do_not_notify():
    assert not may_notify(with_transactions(1_100, took=0.0001))


def test_transactions_do_not_notify_where_the_disk_would_make_them_wait_for_each_other():
    assert not may_notify(with_transactions(100, took=0.01))
    assert may_notify(with_transactions(40, took=0.01))


def test_transactions_do_not_notify_while_the_load_needs_long_pauses():
    assert not may_notify(with_transactions(250, took=0.001, rows=100))
    assert not may_notify(ticks(2_000, sites=7))


def test_large_ticks_of_many_transactions_count_with_their_transactions():
    assert not may_notify([Taken(number * 0.1, 0.0001, 200, 1, 150) for number in range(RECENT)])


@given(_SECONDS)
def test_saving_takes_a_tenth_of_the_time_unless_a_save_waited_long(took: float):
    rest = rest_after(took)
    assert rest == LONGEST_REST if 9 * took > LONGEST_REST else took == pytest.approx(0.1 * (took + rest))


def test_the_waits_between_looks_without_an_entry_grow_to_the_longest_one():
    waits = list(accumulate(range(5), lambda wait, _: longer(wait, 7 * SOON), initial=0.0))
    assert waits == [0.0, SOON, 2 * SOON, 4 * SOON, 7 * SOON, 7 * SOON]
