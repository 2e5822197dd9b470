"""Entries of database sessions without triggers: sent as usual, or reported and sent on demand."""

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from queues.send_log import unordered
from tests.queues.unordered import trigger_off
from tests.system.world import World, in_log_sync
from tests.waiting import eventually


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_entries_of_a_bulk_load_arrive_in_order(world: World) -> None:
    tokyo = world.subscribe("tokyo")
    world.begun("paris", "tokyo")
    paris = world.link("paris", "tokyo", initial_sync="log", clients=["policy"])
    in_log_sync(paris, "tokyo")
    world.transmit("paris", b"before", to=["tokyo"])
    with Session(world.site("paris")) as session, session.begin():
        session.execute(text("SET LOCAL session_replication_role = replica"))
        world.client.transmit_log_entry_message(session, b"loaded", ["tokyo"])
    world.transmit("paris", b"after", to=["tokyo"])
    eventually(lambda: tokyo.log("paris") == [b"before", b"loaded", b"after"])


def test_entries_written_without_the_trigger_are_reported_and_arrive_once_on_demand(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    tokyo = world.subscribe("tokyo")
    world.begun("paris", "tokyo")
    paris = world.link("paris", "tokyo", initial_sync="log", clients=["policy"], segment_bytes=1, trim_seconds=0.05)
    in_log_sync(paris, "tokyo")
    with trigger_off(world.site("paris")):
        world.transmit("paris", b"a", b"b", to=["tokyo"])
    world.transmit("paris", b"c", to=["tokyo"])
    told = [{"client": "policy", "waiting": 2, "dropped": 0}]
    eventually(lambda: paris.status()["log"]["unordered"] == told)
    eventually(lambda: "no site gets them" in caplog.text)
    eventually(lambda: tokyo.log("paris") == [b"c"])
    assert unordered.send(world.site("paris")) == 2
    eventually(lambda: tokyo.log("paris") == [b"c", b"a", b"b"])
    assert paris.status()["log"]["unordered"] == []


def test_unsent_entries_that_retention_drops_are_reported(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.begun("paris", "tokyo")
    paris = world.link(
        "paris",
        "tokyo",
        initial_sync="log",
        clients=["policy"],
        segment_bytes=1,
        trim_seconds=0.05,
        retention_seconds=1e-6,
    )
    in_log_sync(paris, "tokyo")
    with trigger_off(world.site("paris")):
        world.transmit("paris", b"a", to=["tokyo"])
    world.transmit("paris", b"b", to=["tokyo"])
    told = [{"client": "policy", "waiting": 0, "dropped": 1}]
    eventually(lambda: paris.status()["log"]["unordered"] == told)
    eventually(lambda: "no site ever got" in caplog.text)
