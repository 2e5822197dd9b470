"""How long to wait before the database is used again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lr_server.pacing import RECENT, SOON, pause_after, rest_after

_LONGEST = 0.1
_SECONDS = st.floats(0, 60)
_TICKS = st.lists(_SECONDS, min_size=1, max_size=RECENT)


@given(_TICKS)
def test_a_pause_is_within_its_bounds(recent: list[float]):
    assert SOON <= pause_after(recent, _LONGEST) <= _LONGEST


@given(_TICKS, st.floats(1, 10))
def test_the_slower_the_ticks_the_longer_the_pause(recent: list[float], times: float):
    assert pause_after(recent, _LONGEST) <= pause_after([took * times for took in recent], _LONGEST)


def test_ticks_that_are_quick_get_much_of_the_time_and_slow_ones_little():
    shares = [took / (took + pause_after([took], _LONGEST)) for took in (0.002, 0.0025, 0.005)]
    assert shares == pytest.approx([0.5, 0.5, 0.2])


def test_one_slow_tick_makes_no_pause():
    assert pause_after([0.002, 0.002, 0.5], _LONGEST) == SOON


def test_a_longest_pause_below_the_shortest_counts():
    assert pause_after([1.0], 0.001) == 0.001


@given(_SECONDS)
def test_saving_takes_a_tenth_of_the_time(took: float):
    assert took == pytest.approx(0.1 * (took + rest_after(took)))
