"""Delays between tries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.backoff import Backoff
from queues.errors import ConfigurationError


def test_delays_double_up_to_the_cap():
    backoff = Backoff(first_seconds=0.1, cap_seconds=1.0)
    assert [backoff.delay_seconds(attempt) for attempt in (1, 2, 3, 4, 5, 6)] == pytest.approx(
        [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    )


@given(attempt=st.integers(0, 10**9))
def test_every_delay_is_within_its_bounds_after_any_number_of_tries(attempt: int):
    assert 0.05 <= Backoff(first_seconds=0.05, cap_seconds=30.0).delay_seconds(attempt) <= 30.0


@given(attempt=st.integers(1, 200))
def test_delays_never_shrink_with_more_tries(attempt: int):
    assert Backoff().delay_seconds(attempt) <= Backoff().delay_seconds(attempt + 1)


@pytest.mark.parametrize("values", [{"first_seconds": 0}, {"first_seconds": 2, "cap_seconds": 1}, {"factor": 1}])
def test_invalid_delays_are_refused(values: dict[str, float]):
    with pytest.raises(ConfigurationError, match="is no backoff"):
        Backoff(**values)
