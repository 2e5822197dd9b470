"""A snapshot replaces the transactions that were parked before its start."""

from sqlalchemy import Engine

from queues.receive.parked import parked, retry_parked
from tests.lr_client.subscriber.applying import Apply, story
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.waiting import eventually


def refusing(*texts: str) -> Apply:
    return Apply(lambda entry: False if entry.opaque_payload.decode() in texts else None)


def test_a_snapshot_replaces_log_entries_that_were_parked_before(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    with follow(refusing("old", "later"), on_failure="park", max_tries=1):
        tokyo.tick([b"old"], [b"e2"])
        eventually(lambda: tokyo.left == 0)
        tokyo.snapshot("s1", [b"row"], base=2)
        tokyo.tick([b"later"], [b"e4"])
        eventually(lambda: story(sink)[-1:] == ["e4"])
    [aside] = parked(sink)
    assert aside.sequence == 3
    retry_parked(sink, aside.id)
    follow(Apply())
    eventually(lambda: parked(sink) == [])
    assert story(sink) == ["e2", "<start>", "row", "<complete>", "e4", "later"]


def test_a_newer_snapshot_replaces_the_parked_rows_of_an_older_one(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    with follow(refusing("old"), on_failure="park", max_tries=1):
        tokyo.snapshot("s1", [b"old", b"row"])
        eventually(lambda: story(sink)[-1:] == ["<complete>"])
        assert [aside.history for aside in parked(sink)] == ["s1"]
        tokyo.snapshot("s2", [b"new"])
        eventually(lambda: story(sink)[-2:] == ["new", "<complete>"])
    assert parked(sink) == []
