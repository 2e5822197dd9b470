"""The decisions of `lrq work --once`: is everything of the start applied, and is an entry refused too often?"""

import pytest
from sqlalchemy import Engine

from lr_client.subscriber.subscription import subscribe
from lrq.cli.waits.applied import is_applied, is_refused, look, targets
from queues.names import ClientName
from queues.receive.consumer_marks import IN_LOG, IN_SNAPSHOT, NOWHERE, Consumed, Received
from queues.receive.failures import Failure
from queues.receive.queue_marks import QueueMarks
from tests.lr_client.subscriber.applying import Apply
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.waiting import eventually


def received(seq: int, sync_id: str = "", branch: str = "b") -> Received:
    return Received(branch, seq, sync_id, 10, 0)


def consumed(seq: int, sync_id: str = "", phase: str = IN_LOG) -> Consumed:
    return Consumed(phase, sync_id, 0, "b", seq)


@pytest.mark.parametrize(
    ("wanted", "now", "applied", "back_seq", "is_over"),
    [
        (received(5), received(5), consumed(5), NOWHERE, True),
        (received(5), received(9), consumed(5), NOWHERE, True),
        (received(5), received(9), consumed(4), NOWHERE, False),
        (received(0), received(0), None, NOWHERE, True),
        (received(5), received(5), None, NOWHERE, False),
        # the end of a stream without an entry waits for its first subscriber
        (received(0), received(0)._replace(ended_seq=0), None, NOWHERE, False),
        (received(0, "s1"), received(0, "s1"), None, NOWHERE, False),
        # a snapshot counts when its completion is applied
        (received(0, "s1"), received(0, "s1"), consumed(0), NOWHERE, False),
        (received(0, "s1"), received(0, "s1"), consumed(0, "s1", IN_SNAPSHOT), NOWHERE, False),
        (received(0, "s1"), received(0, "s1"), consumed(0, "s1"), NOWHERE, True),
        # a newer snapshot, or another branch, replaces the entries of the start
        (received(5, "s1"), received(7, "s2"), consumed(5, "s1"), NOWHERE, False),
        (received(5, "s1"), received(7, "s2"), consumed(7, "s2"), NOWHERE, True),
        (received(9), received(4, branch="c"), consumed(4), NOWHERE, True),
        (received(9), received(4, branch="c"), consumed(3), NOWHERE, False),
        # applied entries are still to be undone
        (received(9), received(4, branch="c"), consumed(9), 3, False),
    ],
)
def test_everything_of_the_start_is_applied(
    wanted: Received, now: Received, applied: Consumed | None, back_seq: int, is_over: bool
) -> None:
    assert is_applied(wanted, QueueMarks(now, applied, 0, back_seq)) is is_over


@pytest.mark.parametrize(
    ("before", "now", "refused"),
    [
        (None, None, False),
        (None, Failure(5, 1, "e"), False),
        (None, Failure(5, 2, "e"), True),
        (Failure(5, 7, "e"), None, False),
        (Failure(5, 7, "e"), Failure(5, 7, "e"), False),
        (Failure(5, 7, "e"), Failure(5, 8, "e"), False),
        (Failure(5, 7, "e"), Failure(5, 9, "e"), True),
        (Failure(5, 7, "e"), Failure(6, 2, "e"), True),
        (Failure(5, 7, "e"), Failure(5, 2, "e"), True),
    ],
)
def test_an_entry_is_refused_after_two_more_tries(before: Failure | None, now: Failure | None, refused: bool) -> None:
    assert is_refused(before, now, 2) is refused


def test_a_failure_without_an_entry_is_told_as_one(site: Engine) -> None:
    arrivals = Arrivals(site)
    arrivals.keyed([("no number", b"e1")])
    wanted = targets(site, [(ClientName("policy"), 1)])
    with subscribe(site, Apply(), shards=2, partitioner="key", poll_interval=0.02):
        found = eventually(lambda: [each for each in look(site, wanted) if each.refusal])
    assert found[0].refusal.startswith("the delivery has failed ")
    assert "no number" in found[0].refusal
