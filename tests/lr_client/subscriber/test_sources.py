"""Several sources and clients: sources are independent, and a client sees only its own entries."""

import threading

import pytest
from sqlalchemy import Engine

from queues.wire.entry_pb2 import RoutingTableEntryMsg
from tests.lr_client.subscriber.applying import Apply, story
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.waiting import eventually


def test_every_source_is_followed_also_a_later_one(sink: Engine, listener: Apply, follow: Follow) -> None:
    Arrivals(sink, source="tokyo").tick([b"t1"])
    follow(listener)
    eventually(lambda: story(sink, "tokyo") == ["t1"])
    Arrivals(sink, source="paris").snapshot("s1", [b"p1"])
    eventually(lambda: story(sink, "paris") == ["<start>", "p1", "<complete>"])


def test_a_refused_source_does_not_delay_another(sink: Engine, follow: Follow) -> None:
    def refuse_paris(entry: RoutingTableEntryMsg) -> object:
        return False if entry.source_id == "paris" else None

    tokyo, paris = Arrivals(sink, source="tokyo"), Arrivals(sink, source="paris")
    paris.tick([b"p1"])
    tokyo.tick([b"t1"])
    follow(Apply(refuse_paris))
    eventually(lambda: tokyo.left == 0)
    assert paris.left == 1


def test_a_long_listener_call_for_one_source_does_not_delay_another(sink: Engine, dialect: str, follow: Follow) -> None:
    if dialect == "sqlite":
        pytest.skip("SQLite has one writer")
    done = threading.Event()

    def linger(entry: RoutingTableEntryMsg) -> None:
        if entry.source_id == "paris":
            done.wait(20)

    tokyo, paris = Arrivals(sink, source="tokyo"), Arrivals(sink, source="paris")
    paris.tick([b"p1"])
    tokyo.tick([b"t1"])
    follow(Apply(linger))
    eventually(lambda: tokyo.left == 0)
    assert paris.left == 1
    done.set()
    eventually(lambda: paris.left == 0)


def test_clients_with_a_common_prefix_get_only_their_own_entries(sink: Engine, follow: Follow) -> None:
    plain, second = Apply(), Apply(client="policy_v2")
    Arrivals(sink, "policy", "v2_tokyo").tick([b"plain"])
    Arrivals(sink, "policy_v2", "tokyo").tick([b"second"])
    follow(plain)
    follow(second)
    eventually(lambda: story(sink, "v2_tokyo") == ["plain"] and story(sink, "tokyo") == ["second"])
    assert [[entry.client_name for entry in call] for call in plain.calls] == [["policy"]]
    assert [[entry.client_name for entry in call] for call in second.calls] == [["policy_v2"]]


@pytest.mark.parametrize(("client", "source"), [("politik_ö", "münchen-süd.1"), ("方針", "東京"), ("a-b.c", "_x_")])
def test_ids_need_not_be_ascii(sink: Engine, follow: Follow, client: str, source: str) -> None:
    arrivals = Arrivals(sink, client, source)
    arrivals.tick(["größe".encode()])
    listener = Apply(client=client)
    follow(listener)
    eventually(lambda: arrivals.left == 0)
    [[entry]] = listener.calls
    assert (entry.client_name, entry.source_id, entry.opaque_payload.decode()) == (client, source, "größe")
