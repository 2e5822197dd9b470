"""Histories of ticks: common ends, differences, and histories that contradict themselves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lr_server.protocol.agreement.history import EMPTY, NO_TICK, GenerationStart, TickHistory, TickMark
from queues.errors import ProtocolError


def history(*generations: int) -> TickHistory:
    """Return the history with one tick for each of *generations*."""
    return EMPTY.followed_by(tuple(TickMark(one, seq) for seq, one in enumerate(generations, 1)))


@st.composite
def two_histories(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Return the generations of two logs that share a beginning, and then no generation."""
    shared = sorted(draw(st.lists(st.sampled_from([1, 2, 3]), max_size=6)))
    one = sorted(draw(st.lists(st.sampled_from([4, 6]), max_size=4)))
    other = sorted(draw(st.lists(st.sampled_from([5, 7]), max_size=4)))
    return shared + one, shared + other


@given(two_histories())
def test_the_common_end_is_the_end_of_the_equal_ticks(logs: tuple[list[int], list[int]]):
    one, other = logs
    equal = next((count for count, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(map(len, logs)))
    assert history(*one).common_end(history(*other)) == history(*other).common_end(history(*one)) == equal


@given(two_histories(), st.integers(0, 10))
def test_a_history_is_the_list_of_its_ticks(logs: tuple[list[int], list[int]], at: int):
    ticks = [TickMark(generation, seq) for seq, generation in enumerate(logs[0], 1)]
    log = history(*logs[0])
    assert log.newest == (ticks[-1] if ticks else NO_TICK)
    assert log.until(at) == history(*logs[0][:at])
    assert log.after(at, 3) == tuple(ticks[at : at + 3])
    assert all(map(log.holds, ticks))
    assert not log.holds(TickMark(8, 1))
    assert log.first_difference(tuple(ticks)) == len(ticks)
    assert log.until(at).first_difference(tuple(ticks)) == min(at, len(ticks))


def test_a_later_generation_makes_the_longer_log():
    assert history(2, 3).newest > history(2, 2, 2, 2).newest > history(2, 2).newest


@pytest.mark.parametrize(
    ("starts", "end"),
    [
        ((), 1),
        (((2, 1),), 0),
        (((2, 2),), 3),
        (((2, 1), (3, 5)), 4),
        (((3, 1), (2, 2)), 4),
        (((2, 1), (3, 1)), 4),
    ],
)
def test_a_history_that_contradicts_itself_is_refused(starts: tuple[tuple[int, int], ...], end: int):
    with pytest.raises(ProtocolError, match="contradicts itself"):
        TickHistory(tuple(GenerationStart(*start) for start in starts), end)


def test_a_tick_of_an_earlier_generation_is_refused():
    with pytest.raises(ProtocolError, match="tick 3 of generation 2 follows a later generation"):
        history(2, 4).followed_by((TickMark(2, 3),))


@given(two_histories())
def test_a_history_that_grows_keeps_its_rules(logs: tuple[list[int], list[int]]):
    log = history(*logs[0])
    assert TickHistory(log.starts, log.end) == log


def test_a_tick_that_leaves_a_gap_is_refused():
    with pytest.raises(ProtocolError, match="tick 4 does not follow tick 2"):
        history(2, 2).followed_by((TickMark(2, 4),))
