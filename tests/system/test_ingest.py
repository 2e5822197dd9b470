"""Producers without a database send messages to a server."""

import pytest

from queues.wire import ingest_pb2 as pb
from tests.system.raw_producer import RawProducer, request
from tests.system.world import World


@pytest.fixture
def paris(world: World):
    return world.server("paris", ingest=True, producers={"*": {}})


def test_stored_requests_are_answered_in_order_with_their_places_in_the_log(world: World, paris) -> None:
    with RawProducer(paris.endpoints[0]) as producer:
        replies = producer.send([request(1, b"a", b"b"), request(2, b"c")])
        assert [reply.sequence for reply in replies] == [1, 2]
        assert [reply.position.seq for reply in replies] == [2, 3]
        assert [reply.token.split("/")[:2] for reply in replies] == [["paris", "policy"]] * 2
        again = producer.send([request(2, b"c"), request(3, b"d"), request(0), request(9, b"x"), request(4, b"y")])
        assert [reply.sequence for reply in again] == [2, 3, 3, 9]
        assert [reply.position.seq for reply in again[:3]] == [3, 4, 4]
        assert again[0].token == replies[1].token
        assert again[3].refusal.kind == pb.ProduceRefusal.GAP
        assert again[3].refusal.last_sequence == 3
