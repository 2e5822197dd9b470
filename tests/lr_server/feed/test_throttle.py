"""The destinations that leave the live feed: every policy, with one to five destinations."""

import pytest

from lr_server.feed.throttle import HIGH_MARK, Outbox, leaving

FAST = Outbox(fill=0.1, drained_per_second=1_000.0)
SLOW = Outbox(fill=0.95, drained_per_second=100.0)
BUSY = Outbox(fill=0.95, drained_per_second=900.0)


def group(slow: int, of: int) -> dict[int, Outbox]:
    return {number: SLOW if number < slow else FAST for number in range(of)}


@pytest.mark.parametrize("of", [1, 2, 3, 4, 5])
def test_cascade_makes_all_destinations_wait(of: int):
    for slow in range(of + 1):
        assert leaving("cascade", group(slow, of)) == frozenset()


@pytest.mark.parametrize("of", [1, 2, 3, 4, 5])
def test_drop_removes_each_destination_whose_outbox_is_almost_full(of: int):
    for slow in range(of + 1):
        assert leaving("drop", group(slow, of)) == frozenset(range(slow))


@pytest.mark.parametrize(
    ("of", "leave"),
    [
        (1, [0, 0]),
        (2, [0, 1, 0]),
        (3, [0, 1, 0, 0]),
        (4, [0, 1, 2, 0, 0]),
        (5, [0, 1, 2, 0, 0, 0]),
    ],
)
def test_smart_removes_slow_destinations_unless_more_than_half_are_slow(of: int, leave: list[int]):
    assert [len(leaving("smart", group(slow, of))) for slow in range(of + 1)] == leave


@pytest.mark.parametrize(("speed", "leaves"), [(499.0, True), (500.0, True), (501.0, False)])
def test_smart_removes_an_outbox_that_drains_at_most_half_as_fast_as_the_healthy_median(speed: float, leaves: bool):
    outboxes = {"slow": Outbox(fill=0.95, drained_per_second=speed), "fast": FAST, "other": FAST}
    assert ("slow" in leaving("smart", outboxes)) == leaves


def test_smart_waits_for_a_full_outbox_that_drains_well():
    assert leaving("smart", {"busy": BUSY, "fast": FAST, "other": FAST}) == frozenset()


def test_smart_removes_a_stuck_destination_while_the_others_are_idle():
    stuck, idle = Outbox(1.0, 0.0), Outbox(0.0, 0.0)
    assert leaving("smart", {"stuck": stuck, "idle": idle}) == {"stuck"}


def test_an_outbox_at_the_high_mark_counts_as_almost_full():
    assert leaving("drop", {"a": Outbox(HIGH_MARK, 1.0), "b": Outbox(HIGH_MARK - 0.01, 1.0)}) == {"a"}


@pytest.mark.parametrize("policy", ["cascade", "drop", "smart"])
def test_no_destination_leaves_an_empty_feed(policy):
    assert leaving(policy, {}) == frozenset()
