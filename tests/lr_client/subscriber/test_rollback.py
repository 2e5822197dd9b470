"""A subscriber after its source has lost entries that are applied."""

import pytest
from sqlalchemy import Engine

from lr_client.subscriber.callbacks import undoes
from lr_client.subscriber.wait_applied import wait_applied
from queues.errors import WaitTimeoutError
from queues.positions import PositionToken, Visibility
from queues.receive.parked import parked
from tests.lr_client.subscriber.applying import Apply, Undo, story
from tests.lr_client.subscriber.arrivals import BRANCH, Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.waiting import eventually


def applied_by(follow: Follow, listener: Apply, tokyo: Arrivals, *entries: bytes) -> None:
    """Have *entries* applied, one a tick, and end the subscription."""
    with follow(listener):
        for entry in entries:
            tokyo.tick([entry])
        eventually(lambda: tokyo.left == 0)


def test_a_rollback_is_undone_before_newer_entries_are_applied(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    applied_by(follow, Undo(), tokyo, b"e1", b"e2", b"e3")
    tokyo.go_back(1)
    tokyo.tick([b"other"])
    follow(Undo())
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["e1", "e2", "e3", "<back to 1>", "other"]


def test_a_listener_can_undo_if_its_class_or_instance_has_the_method() -> None:
    given = Apply()
    given.on_rollback = Undo().on_rollback
    assert (undoes(Apply()), undoes(Undo()), undoes(given)) == (False, True, True)


def test_a_rollback_is_undone_at_once_without_newer_entries(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    applied_by(follow, Undo(), tokyo, b"e1", b"e2")
    follow(Undo())
    tokyo.go_back(1)
    eventually(lambda: story(sink)[-1] == "<back to 1>")
    tokyo.tick([b"other"])
    eventually(lambda: story(sink)[-1] == "other")


@pytest.mark.parametrize("again", [1, 3], ids=["further back", "not as far"])
def test_the_rollback_that_goes_further_back_counts(sink: Engine, tokyo: Arrivals, follow: Follow, again: int) -> None:
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


def test_unapplied_entries_need_no_undoing(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
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


def test_parked_transactions_among_the_lost_entries_are_removed(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
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


def test_newer_entries_do_not_count_as_applied_before_they_are(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    applied_by(follow, Undo(), tokyo, b"e1", b"e2", b"e3")
    tokyo.go_back(1)
    tokyo.tick([b"other"], mark=Visibility(high=100))
    token = PositionToken(site=tokyo.source, client=tokyo.client, branch=BRANCH, transaction=50)
    with pytest.raises(WaitTimeoutError):
        wait_applied(sink, token, timeout=0)
    follow(Undo())
    wait_applied(sink, token, timeout=20)
    assert story(sink)[-1] == "other"
