"""A sink site with a server that stands by, at an endpoint of its own."""

from tests.system.world import World
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
