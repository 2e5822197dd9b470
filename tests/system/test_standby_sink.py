"""A sink site with a server that stands by, at an endpoint of its own."""

from tests.system.world import World, sessions_of
from tests.waiting import eventually


def test_a_source_finds_the_server_that_works_for_the_site(world: World) -> None:
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


def test_of_two_servers_in_this_process_the_one_that_works_is_found(world: World) -> None:
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


def test_a_local_peer_under_another_name_is_told(world: World) -> None:
    world.server("osaka", listen=[])
    paris = world.server("paris", listen=[], peers={"tokyo": "local:osaka"}, initial_sync="log")
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: "'osaka'" in sessions_of(paris).get("tokyo", {"reason": ""})["reason"])
