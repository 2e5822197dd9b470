"""Delays with randomness, and polling."""

import random
import threading
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from queues.clock import jittered, poll


class QuickClock:
    """A clock whose waits end at once."""

    def __init__(self) -> None:
        self.time = 0.0

    def now_us(self) -> int:
        return int(self.time * 1e6)

    def monotonic(self) -> float:
        return self.time

    def wait(self, event: threading.Event, timeout: float) -> bool:
        self.time += timeout
        return event.is_set()


@given(delay=st.floats(0, 100), spread=st.floats(0, 1))
def test_randomness_only_shortens_a_delay_and_at_most_by_the_spread(delay: float, spread: float):
    assert delay * (1 - spread) <= jittered(delay, spread) <= delay


def test_the_seed_of_an_application_repeats_no_delay():
    random.seed(1)
    first, state = [jittered(1.0) for _ in range(5)], random.getstate()
    random.seed(1)
    assert random.getstate() == state
    assert [jittered(1.0) for _ in range(5)] != first


def test_polling_ends_with_the_first_accepted_result():
    clock, numbers = QuickClock(), count()
    assert poll(lambda: next(numbers), lambda number: number == 3, timeout=10, pause=1, clock=clock) == 3
    assert clock.time == 3


def test_polling_ends_with_the_last_result_at_the_deadline():
    clock, numbers = QuickClock(), count()
    assert poll(lambda: next(numbers), lambda _number: False, timeout=2, pause=1, clock=clock) == 2


def test_polling_without_time_looks_once():
    assert poll(lambda: "done", bool, timeout=0, pause=1) == "done"
    assert poll(lambda: "", bool, timeout=0, pause=1) == ""
