"""A source whose database was restored to an earlier time."""

from typing import Any

import pytest

from queues.errors import StoreUnavailableError
from queues.send_log import sessions
from tests.system.world import World
from tests.waiting import eventually


def test_a_restored_source_works_though_its_sink_has_seen_later_generations(world: World) -> None:
    tokyo = world.server("tokyo")
    heard = world.subscribe("tokyo")
    paris = world.server("paris", peers={"tokyo": tokyo.endpoints[0]}, initial_sync="log")
    world.transmit("paris", b"before", to=["tokyo"])
    eventually(lambda: heard.log("paris") == [b"before"])
    paris.stop()
    world.execute("tokyo", "UPDATE lrq_receive_marks SET generation = 400")
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
    world.execute("tokyo", "UPDATE lrq_receive_marks SET generation = 400")
    really, tries = sessions.replace_fence, iter(["out"])

    def replace(*arguments: Any) -> bool:
        if next(tries, None):
            raise StoreUnavailableError("the database cannot be used just now")
        return really(*arguments)

    monkeypatch.setattr(sessions, "replace_fence", replace)
    world.server("paris", peers={"tokyo": tokyo.endpoints[0]}, initial_sync="log", slow_retry_seconds=0.1)
    world.transmit("paris", b"after", to=["tokyo"])
    eventually(lambda: heard.log("paris") == [b"before", b"after"])
