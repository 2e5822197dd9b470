"""The file of each member of a ring is a source: a sink goes on from another member's file."""

import pytest

from tests.lr_server.ring.stores import begin, new_store, take, transaction
from tests.system.world import World
from tests.waiting import eventually

pytestmark = [pytest.mark.long]


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_sink_goes_on_from_the_file_of_the_next_leader_without_a_snapshot(world: World) -> None:
    files = [world._new_site("paris") for _ in range(2)]
    first, second = (new_store(file, rank) for rank, file in enumerate(files))
    tokyo = world.server("tokyo")
    heard = world.subscribe("tokyo")
    begin(2, first, second)
    take([transaction(b"one"), transaction(b"two", b"three")], first, second)

    world.engines["paris"] = files[0]
    paris = world.server("paris", peers={"tokyo": tokyo.endpoints[0]}, initial_sync="log")
    eventually(lambda: heard.log("paris") == [b"one", b"two", b"three"])
    paris.stop()

    begin(3, second)
    take([transaction(b"four")], second)
    world.engines["paris"] = files[1]
    world.server("paris", peers={"tokyo": tokyo.endpoints[0]}, initial_sync="log")
    eventually(lambda: heard.log("paris") == [b"one", b"two", b"three", b"four"])
    assert heard.kinds("paris") == ["log 4"]
