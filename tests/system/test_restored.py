"""A source whose database was restored to an earlier time."""

from typing import Any

import pytest

from queues.errors import StoreUnavailableError, WaitTimeoutError
from queues.send_log import sessions
from tests.system.world import World, sessions_of
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


def test_a_restored_sink_that_waits_for_a_snapshot_does_not_count_as_having_its_lost_entries(world: World) -> None:
    tokyo = world.server("tokyo")
    paris = world.server("paris", peers={"tokyo": tokyo.endpoints[0]}, initial_sync="log")
    for payload in (b"kept", b"lost"):
        token = world.transmit("paris", payload, to=["tokyo"])
        world.client.wait_replicated(world.site("paris"), token, ["tokyo"], timeout=20)
    paris.stop()
    world.request_snapshots("paris", "tokyo")
    # A backup of tokyo from before the second entry.
    world.execute("tokyo", "DELETE FROM lrq_receive_blocks WHERE end_seq > 1")
    world.execute("tokyo", "DELETE FROM lrq_receive_headers WHERE seq > 1")
    world.execute("tokyo", "UPDATE lrq_receive_marks SET seq = 1, boundary_seq = 1, version = version + 1")
    paris = world.server("paris", peers={"tokyo": tokyo.endpoints[0]}, initial_sync="log")
    eventually(lambda: sessions_of(paris)["tokyo"]["state"] == "snapshot sync")
    eventually(lambda: sessions_of(paris)["tokyo"]["acked_seq"] == 1)
    with pytest.raises(WaitTimeoutError):
        world.client.wait_replicated(world.site("paris"), token, ["tokyo"], timeout=0)
