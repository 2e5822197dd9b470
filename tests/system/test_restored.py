"""A source whose database was restored to an earlier time."""

import pytest

from queues.database import leases
from queues.errors import StoreUnavailableError
from tests.system.world import World
from tests.waiting import eventually


def test_a_restored_source_works_though_its_sink_has_seen_later_generations(world: World) -> None:
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


def test_a_restored_source_works_though_its_database_fails_when_it_raises_its_generation(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokyo = world.server("tokyo")
    heard = world.subscribe("tokyo")
    paris = world.server("paris", peers={"tokyo": tokyo.endpoints[0]}, initial_sync="log")
    world.transmit("paris", b"before", to=["tokyo"])
    eventually(lambda: heard.log("paris") == [b"before"])
    paris.stop()
    world.execute("tokyo", "UPDATE lrq_receive_marks SET generation = 40")
    really, tries = leases.bump_generation, iter(["out"])

    def bump(*arguments: object) -> bool:
        if next(tries, None):
            raise StoreUnavailableError("the database cannot be used just now")
        return really(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(leases, "bump_generation", bump)
    world.server("paris", peers={"tokyo": tokyo.endpoints[0]}, initial_sync="log", slow_retry_seconds=0.1)
    world.transmit("paris", b"after", to=["tokyo"])
    eventually(lambda: heard.log("paris") == [b"before", b"after"])
