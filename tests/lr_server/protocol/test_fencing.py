"""A session outbids the generation that its sink knows: exactly by one, rarely, and a few times only."""

import pytest

from lr_server.protocol.fencing import MOST_LEAPS, Fence, Leap, Outbidding, Stay, decide_leap
from sink.protocol.log_rules import LARGEST_GENERATION, LARGEST_STEP, believable

SECOND, HOUR = 1_000_000, 3600 * 1_000_000
NOW = 10 * HOUR


def refused(told: int, known: int) -> Outbidding:
    return Outbidding("paris", "tokyo", told, known)


def decide(fence: Fence, told: int = 3, known: int = 40) -> Leap | Stay:
    return decide_leap(fence, refused(told, known), now_us=NOW, pause_us=15 * SECOND)


def recent(leaps: int, seconds: float = 15) -> Fence:
    return Fence(7, leaps, NOW - int(seconds * SECOND))


@pytest.mark.parametrize(("told", "known"), [(3, 3), (3, 4), (3, 40), (2**40, 2**50), (1, LARGEST_GENERATION - 1)])
def test_a_leap_goes_exactly_one_beyond_the_known_generation(told: int, known: int):
    found = decide(Fence(lead=2), told, known)
    assert isinstance(found, Leap)
    lease = told - 2
    assert lease + found.fence.lead == known + 1
    assert believable(known) >= known + 1
    assert (found.fence.leaps, found.fence.leaped_us) == (1, NOW)


def test_the_first_leap_is_explained_by_the_two_generations():
    assert decide(Fence()) == Leap(
        Fence(38, 1, NOW), "tokyo has seen generation 40 of this site: the session goes on as 41, not as 3"
    )


@pytest.mark.parametrize("leaps", range(1, MOST_LEAPS))
def test_a_later_leap_names_the_other_installation(leaps: int):
    found = decide(recent(leaps))
    assert isinstance(found, Leap)
    assert found.fence.leaps == leaps + 1
    assert found.reason.endswith("another installation uses the site id 'paris'")


@pytest.mark.parametrize("leaps", range(1, MOST_LEAPS))
def test_two_leaps_are_a_pause_apart(leaps: int):
    fence = recent(leaps, seconds=14.9)
    found = decide(fence)
    assert isinstance(found, Stay)
    assert found.fence == fence


@pytest.mark.parametrize(
    ("leaps", "seconds"), [(MOST_LEAPS, 0), (MOST_LEAPS, 3599), (MOST_LEAPS + 1, 0), (MOST_LEAPS + 1, 1_000_000)]
)
def test_after_the_last_leap_only_an_operator_helps(leaps: int, seconds: float):
    fence = recent(leaps, seconds)
    stopped = fence._replace(leaps=MOST_LEAPS + 1)
    assert stopped.is_spent
    assert decide(fence) == Stay(
        stopped,
        "another installation uses the site id 'paris': tokyo knows generation 40; "
        "stop one of both, then run `lrq fence reset paris` at tokyo",
    )


def test_an_old_leap_is_forgotten():
    found = decide(recent(MOST_LEAPS, seconds=3600))
    assert isinstance(found, Leap)
    assert found.fence.leaps == 1


def test_a_clock_that_went_back_delays_no_leap():
    assert isinstance(decide(recent(1, seconds=-60)), Leap)


@pytest.mark.parametrize(
    ("told", "known", "words"),
    [
        (3, 0, "upgrade lrq at tokyo"),
        (3, 2, "knows 2 only: lrq at tokyo is defective"),
        (3, LARGEST_GENERATION, "run `lrq fence reset paris` at tokyo"),
        (3, 2**63 - 1, "run `lrq fence reset paris` at tokyo"),
    ],
)
def test_a_refusal_without_a_usable_generation_changes_nothing(told: int, known: int, words: str):
    found = decide(Fence(), told, known)
    assert isinstance(found, Stay)
    assert found.fence == Fence()
    assert found.reason.endswith(words)


def test_a_sink_believes_one_step_above_the_newest_known_generation():
    assert believable(5) == 5 + LARGEST_STEP
    assert believable(LARGEST_GENERATION - 1) == LARGEST_GENERATION


def test_a_sink_without_a_known_generation_believes_any_that_can_be_outbid():
    assert believable(0) == LARGEST_GENERATION < 2**63 - 1
