"""A source whose database was restored to an earlier time."""

import pytest

from queues import leases
from queues.errors import StoreUnavailableError
from tests.system.world import World
from tests.waiting import eventually


def test_it_works_again_although_its_sink_has_seen_later_owners_of_it(world: World) -> None:
    tokyo = world.server("tokyo")
    heard = world.subscribe("tokyo")
    paris = world.server("paris", peers={"tokyo": tokyo.endpoints[0]}, initial_sync="log")
    world.transmit("paris", b"before", to=["tokyo"])
    eventually(lambda: heard.log("paris") == [b"before"])
    paris.stop()
    world.execute("tokyo", "UPDATE lrq_receive_marks SET generation = 40")
    world.server("paris", peers={"tokyo": tokyo.endpoints[0]}, initial_sync="log", slow_retry_seconds=0.1)
    world.transmit("paris", b"after", to=["tokyo"])
    eventually(lambda: heard.log("paris") == [b"before", b"after"])


def test_it_works_again_although_its_database_was_out_when_it_heard_of_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokyo = world.server("tokyo")
    heard = world.subscribe("tokyo")
    paris = world.server("paris", peers={"tokyo": tokyo.endpoints[0]}, initial_sync="log")
    world.transmit("paris", b"before", to=["tokyo"])
    eventually(lambda: heard.log("paris") == [b"before"])
    paris.stop()
    world.execute("tokyo", "UPDATE lrq_receive_marks SET generation = 40")
    really, tries = leases.leap, iter(["out"])

    def leap(*arguments: object) -> bool:
        if next(tries, None):
            raise StoreUnavailableError("the database cannot be used just now")
        return really(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(leases, "leap", leap)
    world.server("paris", peers={"tokyo": tokyo.endpoints[0]}, initial_sync="log", slow_retry_seconds=0.1)
    world.transmit("paris", b"after", to=["tokyo"])
    eventually(lambda: heard.log("paris") == [b"before", b"after"])
