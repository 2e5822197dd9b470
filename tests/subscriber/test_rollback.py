"""What a subscriber does when the source has lost entries that it has applied."""

import pytest
from sqlalchemy import Engine

from lr_client.listener import undoes
from lr_client.waiting import wait_applied
from queues.errors import WaitTimeoutError
from queues.positions import Mark, PositionToken
from queues.receive.parked import parked
from tests.subscriber.applying import Apply, Undo, story
from tests.subscriber.arrivals import BRANCH, Arrivals
from tests.subscriber.conftest import Follow
from tests.waiting import eventually


def applied_by(follow: Follow, listener: Apply, tokyo: Arrivals, *entries: bytes) -> None:
    """Have *entries* applied, one a tick, and end the subscription."""
    with follow(listener):
        for entry in entries:
            tokyo.tick([entry])
        eventually(lambda: tokyo.left == 0)


def test_it_undoes_before_it_applies_what_comes_instead(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    applied_by(follow, Undo(), tokyo, b"e1", b"e2", b"e3")
    tokyo.go_back(1)
    tokyo.tick([b"other"])
    follow(Undo())
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["e1", "e2", "e3", "<back to 1>", "other"]


def test_a_listener_can_undo_when_it_has_the_method_wherever_that_comes_from() -> None:
    given = Apply()
    given.on_rollback = Undo().on_rollback
    assert (undoes(Apply()), undoes(Undo()), undoes(given)) == (False, True, True)


def test_it_undoes_at_once_when_nothing_comes_instead(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    applied_by(follow, Undo(), tokyo, b"e1", b"e2")
    follow(Undo())
    tokyo.go_back(1)
    eventually(lambda: story(sink)[-1] == "<back to 1>")
    tokyo.tick([b"other"])
    eventually(lambda: story(sink)[-1] == "other")


@pytest.mark.parametrize("again", [1, 3], ids=["further back", "not as far"])
def test_of_two_losses_the_one_further_back_counts(sink: Engine, tokyo: Arrivals, follow: Follow, again: int) -> None:
    applied_by(follow, Undo(), tokyo, b"e1", b"e2", b"e3", b"e4")
    tokyo.go_back(2)
    tokyo.tick([b"f3"])
    tokyo.tick([b"f4"])
    tokyo.go_back(again)
    tokyo.tick([b"last"])
    follow(Undo())
    eventually(lambda: tokyo.left == 0)
    left = ["<back to 1>", "last"] if again == 1 else ["<back to 2>", "f3", "last"]
    assert story(sink) == ["e1", "e2", "e3", "e4", *left]


def test_what_was_not_applied_needs_no_undoing(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    applied_by(follow, Undo(), tokyo, b"e1")
    tokyo.tick([b"e2"])
    tokyo.go_back(1)
    tokyo.tick([b"other"])
    follow(Undo())
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["e1", "other"]


def test_a_listener_that_cannot_undo_waits_for_a_snapshot(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    applied_by(follow, Undo(), tokyo, b"e1", b"e2")
    tokyo.go_back(1)
    tokyo.tick([b"other"])
    listener = Apply()
    follow(listener)
    eventually(lambda: any("request a snapshot from tokyo" in str(error) for _, error in listener.errors))
    assert story(sink) == ["e1", "e2"]
    tokyo.snapshot("s1", [b"row"], base=2)
    tokyo.tick([b"after"])
    eventually(lambda: story(sink) == ["e1", "e2", "<start>", "row", "<complete>", "after"])


def test_what_was_parked_of_it_is_forgotten(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    def refuse(entry):
        return False if entry.opaque_payload.startswith(b"bad") else None

    class Picky(Undo):
        def __init__(self) -> None:
            super().__init__(refuse)

    with follow(Picky(), on_failure="park", max_tries=1):
        for entry in (b"bad1", b"e2", b"bad3", b"e4"):
            tokyo.tick([entry])
        eventually(lambda: tokyo.left == 0)
    tokyo.go_back(2)
    follow(Undo())
    eventually(lambda: story(sink)[-1] == "<back to 2>")
    assert [found.sequence for found in parked(sink)] == [1]


def test_what_comes_instead_is_not_taken_for_applied(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    applied_by(follow, Undo(), tokyo, b"e1", b"e2", b"e3")
    tokyo.go_back(1)
    tokyo.tick([b"other"], mark=Mark(high=100))
    token = PositionToken(site=tokyo.source, client=tokyo.client, branch=BRANCH, transaction=50)
    with pytest.raises(WaitTimeoutError):
        wait_applied(sink, token, timeout=0)
    follow(Undo())
    wait_applied(sink, token, timeout=20)
    assert story(sink)[-1] == "other"
