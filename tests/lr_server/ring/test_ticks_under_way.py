"""A slow line carries each tick once: no repeat of ticks that are under way goes out."""

from lr_server.protocol.agreement.history import NO_TICK, TickMark
from lr_server.protocol.agreement.messages import Append
from lr_server.protocol.slow_lines import SLOWEST
from lr_server.ring.ticks_under_way import LONGEST, SLOW, TicksUnderWay, note_loss, note_write


def append(first: int, last: int, generation: int = 2) -> Append:
    marks = tuple(TickMark(generation, seq) for seq in range(first, last + 1))
    return Append(generation, NO_TICK, marks, TickMark(generation, last), 0)


def test_ticks_are_under_way_while_they_wait_and_as_long_again():
    line = TicksUnderWay()
    assert not line.has(append(1, 2), 10)
    carried = line.entered(append(1, 2), 10, 10)
    assert line.has(append(1, 2), 1_000)
    note_write(carried, 15)
    assert line.has(append(2, 3), 19.9)
    assert not line.has(append(1, 2), 20)


def test_a_large_message_on_a_slow_line_is_under_way_as_long_as_on_the_slowest_one():
    line = TicksUnderWay()
    note_write(line.entered(append(1, 1), 20 * SLOWEST, 0), SLOW)
    assert line.has(append(1, 1), SLOW + 19.9)
    assert not line.has(append(1, 1), SLOW + 20)
    note_write(line.entered(append(2, 2), 20 * SLOWEST, 100), 100.1)
    assert not line.has(append(2, 2), 100.2)


def test_a_long_write_holds_repeats_back_for_a_limited_time():
    line = TicksUnderWay()
    note_write(line.entered(append(1, 1), 10, 0), 1_000)
    assert line.has(append(1, 1), 999 + LONGEST)
    assert not line.has(append(1, 1), 1_000 + LONGEST)


def test_other_ticks_are_not_held_back():
    line = TicksUnderWay()
    line.entered(append(5, 9), 10, 0)
    assert not line.has(append(10, 11), 0)
    # The follower lost tick 4, so the repeat begins there.
    assert not line.has(append(4, 9), 0)
    assert not line.has(append(5, 9, generation=3), 0)
    assert not line.has(Append(2, NO_TICK, (), NO_TICK, 0), 0)


def test_ticks_of_a_lost_message_are_not_under_way():
    line = TicksUnderWay()
    note_loss(line.entered(append(1, 1), 10, 0))
    assert not line.has(append(1, 1), 0)
    line.entered(append(1, 1), 10, 0)
    line.clear()
    assert not line.has(append(1, 1), 0)
