"""Requests are refused while the database has too few synchronous standby servers."""

import threading
from itertools import product

import pytest

from lr_server.ingest.followers import FollowerWatch, lack
from queues.clock import SYSTEM_CLOCK
from queues.errors import ConfigurationError
from tests.waiting import eventually


@pytest.mark.parametrize(
    ("found", "required", "seconds", "refused"),
    [
        (None, 0, 1e9, False),
        (0, 0, 1e9, False),
        (1, 1, 1e9, False),
        (2, 1, 1e9, False),
        (0, 1, 59.0, False),
        (0, 1, 60.0, True),
        (1, 2, 60.0, True),
        (None, 1, 60.0, True),
        (None, 1, 59.0, False),
    ],
)
def test_a_lack_is_borne_for_a_time_and_then_refused(
    found: int | None, required: int, seconds: float, refused: bool
) -> None:
    assert bool(lack(found, required, seconds, 60.0)) == refused


def test_each_number_of_followers_and_each_time_is_decided_by_the_rule() -> None:
    for required, found, seconds in product(range(4), (None, 0, 1, 2, 3), (0.0, 59.999, 60.0, 3600.0, float("inf"))):
        too_few = found is None or found < required
        assert bool(lack(found, required, seconds, 60.0)) == (required > 0 and too_few and seconds >= 60.0)


def test_a_lack_at_the_beginning_is_refused_at_once() -> None:
    watch = FollowerWatch(lambda: 0, 1, 60.0, SYSTEM_CLOCK)
    assert "the database has 0 synchronous standby servers, and require_followers is 1" in watch.refusal()


def test_a_failed_look_counts_as_unknown_and_its_reason_is_told() -> None:
    def look() -> int:
        raise ConfigurationError("the role may not see them")

    refusal = FollowerWatch(look, 1, 60.0, SYSTEM_CLOCK).refusal()
    assert "an unknown number of" in refusal
    assert "the role may not see them" in refusal


def test_nothing_is_asked_where_no_follower_is_required() -> None:
    asked: list[None] = []
    assert FollowerWatch(lambda: asked.append(None), 0, 60.0, SYSTEM_CLOCK).refusal() == ""
    assert asked == []


def test_enough_followers_are_not_asked_for_again_at_once() -> None:
    asked: list[None] = []

    def look() -> int:
        asked.append(None)
        return 1

    watch = FollowerWatch(look, 1, 60.0, SYSTEM_CLOCK)
    assert [watch.refusal(), watch.refusal()] == ["", ""]
    assert len(asked) == 1
    watch.begin()
    assert watch.refusal() == ""
    assert len(asked) == 2


def test_a_probe_waits_for_no_look_and_hears_its_result_later() -> None:
    looks, answers = threading.Event(), threading.Event()

    def look() -> int:
        looks.set()
        answers.wait(60)
        return 0

    watch = FollowerWatch(look, 1, 60.0, SYSTEM_CLOCK)
    assert watch.last_refusal() == ""
    eventually(looks.is_set)
    assert watch.last_refusal() == ""
    assert not answers.is_set()
    answers.set()
    eventually(lambda: "the database has 0 synchronous standby servers" in watch.last_refusal())


def test_a_probe_asks_nothing_where_no_follower_is_required() -> None:
    asked: list[None] = []
    assert FollowerWatch(lambda: asked.append(None), 0, 60.0, SYSTEM_CLOCK).last_refusal() == ""
    assert asked == []
