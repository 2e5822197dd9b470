"""Delays between tries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lr_server.backoff import Backoff
from queues.errors import ConfigurationError

CHANCE = st.floats(0, 1, exclude_max=True)


def test_delays_double_up_to_the_cap():
    backoff = Backoff(first_seconds=0.1, cap_seconds=1.0)
    delays = [backoff.delay_seconds(attempt, 0.0) for attempt in (1, 2, 3, 4, 5, 6)]
    assert delays == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


def test_chance_only_shortens_and_at_most_by_the_spread():
    backoff = Backoff(first_seconds=1.0, cap_seconds=60.0, spread=0.5)
    assert backoff.delay_seconds(1, 0.5) == 0.75
    assert backoff.delay_seconds(1, 0.999) > 0.5


@given(attempt=st.integers(0, 10**9), chance=CHANCE, spread=st.floats(0, 1))
def test_no_delay_is_outside_its_bounds_however_many_tries_there_were(attempt: int, chance: float, spread: float):
    backoff = Backoff(first_seconds=0.05, cap_seconds=30.0, spread=spread)
    assert (1 - spread) * 0.05 <= backoff.delay_seconds(attempt, chance) <= 30.0


@given(attempt=st.integers(1, 200), chance=CHANCE)
def test_delays_never_shrink_with_more_tries(attempt: int, chance: float):
    backoff = Backoff()
    assert backoff.delay_seconds(attempt, chance) <= backoff.delay_seconds(attempt + 1, chance)


@pytest.mark.parametrize(
    "values", [{"first_seconds": 0}, {"first_seconds": 2, "cap_seconds": 1}, {"factor": 1}, {"spread": 1.5}]
)
def test_values_that_are_no_delays_are_refused(values: dict[str, float]):
    with pytest.raises(ConfigurationError, match="is no backoff"):
        Backoff(**values)
