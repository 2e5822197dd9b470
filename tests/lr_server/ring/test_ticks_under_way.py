"""A slow line carries each tick once: no repeat of ticks that are under way goes out."""

from lr_server.protocol.agreement.history import NO_TICK, TickMark
from lr_server.protocol.agreement.messages import Append
from lr_server.protocol.slow_lines import SLOWEST
from lr_server.ring.ticks_under_way import LONGEST, SLOW, CarriedTicks, TicksUnderWay, carried_by, note_loss, note_write


def append(first: int, last: int, generation: int = 2) -> Append:
    marks = tuple(TickMark(generation, seq) for seq in range(first, last + 1))
    return Append(generation, NO_TICK, marks, TickMark(generation, last), 0)


def enter(line: TicksUnderWay, message: Append, size: int, now: float) -> CarriedTicks:
    carried = carried_by(message, size, now)
    assert carried is not None
    line.entered(carried)
    return carried


def test_ticks_are_under_way_while_they_wait_and_as_long_again():
    line = TicksUnderWay()
    assert not line.has(append(1, 2), 10)
    carried = enter(line, append(1, 2), 10, 10)
    assert line.has(append(1, 2), 1_000)
    note_write(carried, 15)
    assert line.has(append(2, 3), 19.9)
    assert not line.has(append(1, 2), 20)


def test_a_large_message_on_a_slow_line_is_under_way_as_long_as_on_the_slowest_one():
    line = TicksUnderWay()
    note_write(enter(line, append(1, 1), 20 * SLOWEST, 0), SLOW)
    assert line.has(append(1, 1), SLOW + 19.9)
    assert not line.has(append(1, 1), SLOW + 20)
    note_write(enter(line, append(2, 2), 20 * SLOWEST, 100), 100.1)
    assert not line.has(append(2, 2), 100.2)


def test_a_long_write_holds_repeats_back_for_a_limited_time():
    line = TicksUnderWay()
    note_write(enter(line, append(1, 1), 10, 0), 1_000)
    assert line.has(append(1, 1), 999 + LONGEST)
    assert not line.has(append(1, 1), 1_000 + LONGEST)


def test_other_ticks_are_not_held_back():
    line = TicksUnderWay()
    enter(line, append(5, 9), 10, 0)
    assert not line.has(append(10, 11), 0)
    # The follower lost tick 4, so the repeat begins there.
    assert not line.has(append(4, 9), 0)
    assert not line.has(append(5, 9, generation=3), 0)
    assert not line.has(Append(2, NO_TICK, (), NO_TICK, 0), 0)


def test_ticks_of_a_lost_message_are_not_under_way():
    line = TicksUnderWay()
    note_loss(enter(line, append(1, 1), 10, 0))
    assert not line.has(append(1, 1), 0)
    enter(line, append(1, 1), 10, 0)
    line.clear()
    assert not line.has(append(1, 1), 0)


def test_notes_of_quick_messages_end_behind_a_slow_one():
    line = TicksUnderWay()
    note_write(enter(line, append(1, 1), 60 * SLOWEST, 0), SLOW)
    for seq in range(2, 50):
        note_write(enter(line, append(seq, seq), 10, 10), 10.001)
    assert line.has(append(1, 1), 11)
    assert len(line) == 1


def test_a_message_without_ticks_has_no_note():
    assert carried_by(Append(2, NO_TICK, (), NO_TICK, 0), 10, 0) is None
