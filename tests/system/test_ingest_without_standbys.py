"""Producers are refused before anything is stored while no synchronous standby server follows."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from queues.wire import ingest_pb2 as pb
from tests.conftest import NewSite
from tests.standbys import StandbyServers, standby_servers
from tests.system.raw_producer import RawProducer, request
from tests.system.world import World
from tests.waiting import eventually

pytestmark = [pytest.mark.postgresql, pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(240)]


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    """Give the database of the sink."""
    return str(request.param)


@pytest.fixture
def servers() -> Iterator[StandbyServers]:
    with standby_servers() as made:
        yield made


def stored(world: World) -> list[tuple[int, int]]:
    """Return the number of entries, and the last sequence of the producer."""
    question = "SELECT (SELECT count(*) FROM lrq_log_entries), (SELECT max(sequence) FROM lrq_producers)"
    return [tuple(row) for row in world.execute("paris", question)]


def test_without_a_standby_nothing_is_stored_and_with_one_the_producer_goes_on(
    servers: StandbyServers, new_site: NewSite
) -> None:
    with ExitStack() as stack:
        world = World(new_site, stack)
        paris_engine = world.engines["paris"] = servers.site("paris")
        stack.callback(paris_engine.dispose)
        heard = world.subscribe("tokyo")
        tokyo = world.server("tokyo")
        rules = {"ingest": True, "producers": {"*": {}}, "require_followers": 1, "stall_seconds": 1.0}
        peers = {"tokyo": tokyo.endpoints[0]}
        paris = world.server("paris", peers=peers, initial_sync="log", **rules)
        with RawProducer(paris.endpoints[0]) as producer:
            assert [reply.sequence for reply in producer.send([request(1, b"1"), request(2, b"2")])] == [1, 2]
            servers.stop("b2", "b3")
            eventually(lambda: "ingest" in paris.server_status().troubles)
            for _ in range(3):
                (reply,) = producer.send([request(3, b"3")])
                assert reply.refusal.kind == pb.ProduceRefusal.NO_FOLLOWER
                assert "the database has 0 synchronous standby servers, and require_followers is 1" in str(reply)
                assert stored(world) == [(2, 2)]
            servers.start("b3")
            eventually(lambda: "ingest" not in paris.server_status().troubles)
            replies = producer.send([request(3, b"3"), request(4, b"4")])
            assert [reply.position.seq for reply in replies] == [3, 4]
        eventually(lambda: len(heard.log("paris")) >= 4)
        assert heard.log("paris") == [b"1", b"2", b"3", b"4"]
