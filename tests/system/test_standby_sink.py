"""A sink site with two servers, each at its own endpoint; one of them stands by."""

from tests.system.world import World, sessions_of
from tests.waiting import eventually


def test_a_source_finds_the_owner_among_the_endpoints_of_a_site(world: World) -> None:
    first = world.server("tokyo")
    second = world.server("tokyo")
    assert (first.is_owner, second.is_owner) == (True, False)
    tokyo = world.subscribe("tokyo")
    world.server("paris", peers={"tokyo": f"{second.endpoints[0]}, {first.endpoints[0]}"}, initial_sync="log")
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: tokyo.log("paris") == [b"1"])
    first.stop()
    eventually(lambda: second.is_owner)
    world.transmit("paris", b"2", to=["tokyo"])
    eventually(lambda: tokyo.log("paris") == [b"1", b"2"])


def test_a_source_finds_the_owner_among_two_servers_of_this_process(world: World) -> None:
    first = world.server("tokyo", listen=[])
    second = world.server("tokyo", listen=[])
    tokyo = world.subscribe("tokyo")
    world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, initial_sync="log")
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: tokyo.log("paris") == [b"1"])
    second.stop()
    world.transmit("paris", b"2", to=["tokyo"])
    eventually(lambda: tokyo.log("paris") == [b"1", b"2"])
    assert first.is_owner


def test_a_local_peer_of_another_name_is_reported(world: World) -> None:
    world.server("osaka", listen=[])
    paris = world.server("paris", listen=[], peers={"tokyo": "local:osaka"}, initial_sync="log")
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: "'osaka'" in sessions_of(paris).get("tokyo", {"reason": ""})["reason"])
