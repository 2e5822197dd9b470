"""The frames in flight: the window against a model that counts a list."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lr_server.protocol.window import Window
from queues.errors import UsageError


def test_an_empty_window_admits_a_frame_of_any_size():
    window = Window(max_frames=3, max_bytes=10)
    assert not window.full
    window.add(1, 1_000_000)
    assert window.full
    assert window.ack(1) == 1
    assert not window.full


def test_the_oldest_frame_is_the_next_one_to_be_acknowledged():
    window = Window(max_frames=3, max_bytes=10)
    assert window.oldest_bytes == 0
    window.add(1, 4)
    window.add(2, 5)
    assert window.oldest_bytes == 4
    window.ack(1)
    assert window.oldest_bytes == 5


def test_both_frames_and_bytes_are_counted():
    window = Window(max_frames=2, max_bytes=10)
    window.add(1, 1)
    assert window.fill == 0.5
    window.add(2, 1)
    assert window.full


def test_people_see_the_used_share_in_steps_of_ten():
    window = Window(max_frames=8, max_bytes=99)
    shown = [window.percent]
    for end in range(1, 9):
        window.add(end, 1)
        shown.append(window.percent)
    assert shown == [0, 10, 20, 30, 50, 60, 70, 80, 100]


def test_a_frame_beyond_the_limit_fills_the_window_to_100_percent():
    window = Window(max_frames=8, max_bytes=10)
    window.add(1, 1_000)
    assert window.percent == 100


def test_an_acknowledgement_is_cumulative_and_may_come_late_or_twice():
    window = Window(max_frames=9, max_bytes=99)
    for end in (10, 20, 20, 30):
        window.add(end, 1)
    assert [window.ack(upto) for upto in (5, 20, 20, 10, 29, 31)] == [0, 3, 0, 0, 0, 1]


def test_small_frames_are_gathered_while_others_are_in_flight():
    window = Window(max_frames=9, max_bytes=99)
    gathers = []
    for end in (1, 2, 3):
        gathers.append(window.gathers(10))
        window.add(end, 4)
    assert gathers == [False, False, True]
    assert window.gathers(13)
    assert not window.gathers(12)  # as many bytes as a whole frame are in flight
    window.ack(2)
    assert not window.gathers(10)


def test_a_full_window_admits_no_frame():
    window = Window(max_frames=1, max_bytes=9)
    window.add(1, 1)
    with pytest.raises(UsageError, match="wait for an acknowledgement"):
        window.add(2, 1)


def test_frames_are_sent_in_order():
    window = Window(max_frames=9, max_bytes=9)
    window.add(7, 1)
    with pytest.raises(UsageError, match="cannot follow"):
        window.add(6, 1)


@pytest.mark.parametrize(("frames", "size"), [(0, 1), (1, 0)])
def test_a_window_of_size_0_is_refused(frames: int, size: int):
    with pytest.raises(UsageError, match="allow at least 1"):
        Window(max_frames=frames, max_bytes=size)


def test_the_room_of_the_sink_closes_the_window_for_entries_and_no_other_frames():
    window = Window(max_frames=9, max_bytes=100, room=10)
    assert window.has_room
    window.add(1, 12)
    assert (window.has_room, window.full) == (False, False)
    window.ack(1)
    window.room = 0
    assert (window.has_room, window.full) == (False, False)
    window.room = None
    window.add(2, 99)
    assert window.has_room


class WindowAgainstList(RuleBasedStateMachine):
    """The model keeps a list and counts it anew each time."""

    @initialize(frames=st.integers(1, 5), size=st.integers(1, 30))
    def open(self, frames: int, size: int) -> None:
        self.max_frames, self.max_bytes = frames, size
        self.window = Window(max_frames=frames, max_bytes=size)
        self.sent: list[tuple[int, int]] = []
        self.end = 0

    @precondition(lambda self: not self.window.full)
    @rule(step=st.integers(0, 3), size=st.integers(0, 40))
    def add(self, step: int, size: int) -> None:
        self.end += step
        self.window.add(self.end, size)
        self.sent.append((self.end, size))

    @rule(back=st.integers(-2, 8))
    def ack(self, back: int) -> None:
        upto = self.end - back
        kept = [frame for frame in self.sent if frame[0] > upto]
        assert self.window.ack(upto) == len(self.sent) - len(kept)
        self.sent = kept

    @invariant()
    def agrees(self) -> None:
        total = sum(size for _, size in self.sent)
        assert (len(self.window), self.window.bytes) == (len(self.sent), total)
        assert self.window.full == (len(self.sent) >= self.max_frames or total >= self.max_bytes)
        assert self.window.fill >= 1 if self.window.full else self.window.fill < 1
        if self.sent:
            assert total - self.sent[-1][1] < self.max_bytes
        else:
            assert not self.window.full


TestWindowAgainstList = WindowAgainstList.TestCase
