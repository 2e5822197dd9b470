"""A sink site with several servers, each at its own endpoint: all of them take frames."""

import pytest

from discovery import endpoint_choice
from discovery.endpoint_choice import preferred
from discovery.topology import StaticTopology
from lr_server import LogReplicationServer
from lr_server.session import routes
from tests.system.world import World, sessions_of
from tests.waiting import eventually

CLIENTS = [f"client{number}" for number in range(6)]


def both(first: LogReplicationServer, second: LogReplicationServer) -> str:
    return f"{first.endpoints[0]}, {second.endpoints[0]}"


def streams(server: LogReplicationServer) -> int:
    """Return the number of sessions that have negotiated with *server*."""
    return len(server._writer._streams._begun)


def test_the_sessions_of_a_source_spread_over_the_servers_of_a_sink(world: World) -> None:
    servers = [world.server("tokyo"), world.server("tokyo")]
    world.server("paris", peers={"tokyo": both(*servers)}, initial_sync="log")
    for client in CLIENTS:
        world.transmit("paris", b"1", to=["tokyo"], client=client)
    wanted = [sum(preferred(("paris", "tokyo", client), 2) == number for client in CLIENTS) for number in (0, 1)]
    assert min(wanted) > 0
    eventually(lambda: [streams(server) for server in servers] == wanted)
    eventually(lambda: [each["received_total"] for each in servers[0].status()["receive_queues"]] == [1] * 6)


@pytest.mark.parametrize("stopped", [0, 1])
def test_a_session_goes_on_through_the_other_server_when_one_stops(world: World, stopped: int) -> None:
    servers = [world.server("tokyo"), world.server("tokyo")]
    tokyo = world.subscribe("tokyo")
    world.server("paris", peers={"tokyo": both(*servers)}, initial_sync="log")
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: tokyo.log("paris") == [b"1"])
    servers[stopped].stop()
    world.transmit("paris", b"2", to=["tokyo"])
    eventually(lambda: tokyo.log("paris") == [b"1", b"2"])


def test_a_session_moves_back_to_its_preferred_server(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (endpoint_choice, routes):
        for name in ("FIRST_PAUSE", "LOOK_SECONDS"):
            monkeypatch.setattr(module, name, 0.2, raising=False)
    servers = [world.server("tokyo"), world.server("tokyo")]
    home = preferred(("paris", "tokyo", "policy"), 2)
    endpoint = servers[home].endpoints[0]
    tokyo = world.subscribe("tokyo")
    paris = world.server("paris", peers={"tokyo": both(*servers)}, initial_sync="log", stall_seconds=2)
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: tokyo.log("paris") == [b"1"])
    servers[home].stop()
    eventually(lambda: streams(servers[1 - home]) == 1)
    world.transmit("paris", b"2", to=["tokyo"])
    eventually(lambda: tokyo.log("paris") == [b"1", b"2"])
    again = world.server("tokyo", listen=[endpoint])
    eventually(lambda: streams(again) == 1)
    world.transmit("paris", b"3", to=["tokyo"])
    eventually(lambda: tokyo.log("paris") == [b"1", b"2", b"3"])
    eventually(lambda: sessions_of(paris)["tokyo"]["acked_seq"] == 3)


def test_a_source_reaches_any_of_two_servers_of_this_process(world: World) -> None:
    first = world.server("tokyo", listen=[])
    second = world.server("tokyo", listen=[])
    tokyo = world.subscribe("tokyo")
    world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, initial_sync="log")
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: tokyo.log("paris") == [b"1"])
    first.stop()
    world.transmit("paris", b"2", to=["tokyo"])
    eventually(lambda: tokyo.log("paris") == [b"1", b"2"])
    assert second.status()["receive_queues"]


def test_a_local_peer_of_another_name_is_reported(world: World) -> None:
    world.server("osaka", listen=[])
    topology = StaticTopology({"tokyo": "local:osaka"})
    paris = world.server("paris", listen=[], topology=topology, initial_sync="log")
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: "'osaka'" in sessions_of(paris).get("tokyo", {"reason": ""})["reason"])
