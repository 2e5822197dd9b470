"""A key that the partitioner gives no slot stops its queue until the client has another partitioner."""

from importlib.metadata import EntryPoint

import pytest
from sqlalchemy import Engine

from lr_client.subscriber.sharding import set_shards
from queues import partitioner_names
from queues.partitioner_names import partitioner_of
from queues.partitioners import HashPartitioner
from tests.lr_client.subscriber.applying import Apply, story
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.waiting import eventually


def test_another_partitioner_lets_a_key_without_a_slot_pass(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    tokyo.keyed(*[[(str(n), f"e{n}".encode())] for n in range(4)], [("no number", b"e4")], [("5", b"e5")])
    listener = Apply()
    follow(listener, shards=2, partitioner="key")
    eventually(lambda: sorted(story(sink)) == ["e0", "e1", "e2", "e3"])
    eventually(lambda: any("is no number" in str(error) for _, error in listener.errors))
    set_shards(sink, "policy", 2, partitioner="hash")
    eventually(lambda: sorted(story(sink)) == [f"e{n}" for n in range(6)])


def test_another_partitioner_replaces_one_that_is_not_installed_any_more(
    sink: Engine, tokyo: Arrivals, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint("gone", f"{HashPartitioner.__module__}:HashPartitioner", partitioner_names.GROUP)
    with monkeypatch.context() as installed:
        installed.setattr(partitioner_names, "entry_points", lambda group: (point,))
        with follow(Apply(), shards=2, partitioner="gone"):
            tokyo.keyed([("a", b"e1")])
            eventually(lambda: tokyo.left == 0)
    partitioner_of.cache_clear()
    tokyo.keyed([("a", b"e2")], [("b", b"e3")])
    listener = Apply()
    follow(listener)
    eventually(lambda: any("no partitioner gone" in str(error) for _, error in listener.errors))
    set_shards(sink, "policy", 2, partitioner="hash")
    eventually(lambda: sorted(story(sink)) == ["e1", "e2", "e3"])
