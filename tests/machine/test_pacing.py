"""How long to wait before the database is used again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lr_server.pacing import SOON, pause_after, rest_after

_LONGEST = 0.1
_SECONDS = st.floats(0, 60)


@given(_SECONDS)
def test_a_pause_is_within_its_bounds(took: float):
    assert SOON <= pause_after(took, _LONGEST) <= _LONGEST


@given(_SECONDS, _SECONDS)
def test_the_slower_a_tick_the_longer_the_pause(one: float, other: float):
    assert pause_after(min(one, other), _LONGEST) <= pause_after(max(one, other), _LONGEST)


def test_ticks_that_are_quick_get_much_of_the_time_and_slow_ones_little():
    shares = [took / (took + pause_after(took, _LONGEST)) for took in (0.001, 0.002, 0.008)]
    assert shares == [0.001 / 0.003, 0.5, 0.2]


def test_a_longest_pause_below_the_shortest_counts():
    assert pause_after(1.0, 0.001) == 0.001


@given(_SECONDS)
def test_saving_takes_a_tenth_of_the_time(took: float):
    assert took == pytest.approx(0.1 * (took + rest_after(took)))
