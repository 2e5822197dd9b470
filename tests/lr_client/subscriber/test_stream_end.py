"""The end of a stream is the last step of a subscriber in a queue."""

import pytest

from lr_client.subscriber.steps import Kind, next_kind
from queues.receive.consumer_marks import IN_LOG, IN_SNAPSHOT, NOWHERE, Consumed, QueueState, Received

ALL = Consumed(IN_LOG, "s", 3, "b", 10)
ENDED = Received("b", 10, "s", 3, 0, ended_seq=10)


def test_the_end_comes_once_after_everything():
    assert next_kind(QueueState(ALL, ENDED, None)) is Kind.STREAM_END
    assert next_kind(QueueState(ALL._replace(ended_seq=10), ENDED, None)) is None
    assert next_kind(QueueState(ALL, ENDED._replace(ended_seq=-1), None)) is None


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        (QueueState(ALL._replace(seq=9), ENDED, None), Kind.LOG_ENTRIES),
        (QueueState(ALL, ENDED, 7), Kind.RETRY),
        (QueueState(ALL, ENDED, None, 5), Kind.ROLLBACK),
        (QueueState(ALL, ENDED._replace(sync_id="t"), None), Kind.SNAPSHOT_START),
        (QueueState(ALL._replace(phase=IN_SNAPSHOT), ENDED, None), Kind.SNAPSHOT_COMPLETE),
    ],
)
def test_everything_else_comes_first(state: QueueState, kind: Kind):
    assert next_kind(state) is kind


def test_a_later_end_is_told_again():
    later = ENDED._replace(boundary_seq=12, ended_seq=12)
    assert next_kind(QueueState(ALL._replace(seq=12, ended_seq=10), later, None, NOWHERE)) is Kind.STREAM_END
