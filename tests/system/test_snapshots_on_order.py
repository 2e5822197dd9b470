"""Snapshots that the application requests while the log is replicated."""

from dataclasses import dataclass

import pytest

from tests.system.world import Messages, Recorder, World, in_log_sync
from tests.waiting import eventually

SITES = ("tokyo", "lima", "osaka")
ONCE = ["start 1", "snapshot 1", "complete 1", "log 1"]


@dataclass
class Region:
    """Three sinks that have received a snapshot and one log entry."""

    world: World
    provider: Messages
    sinks: dict[str, Recorder]

    def settle(self) -> None:
        """Send every sink one more entry and wait for it; an unrequested snapshot would arrive before that entry."""
        self.world.transmit("paris", b"last", to=SITES)
        for sink in self.sinks.values():
            eventually(lambda sink=sink: sink.log("paris")[-1:] == [b"last"])


@pytest.fixture
def region(world: World) -> Region:
    provider = Messages(lambda _: [b"state"])
    world.provide("paris", provider)
    sinks = {name: world.subscribe(name) for name in SITES}
    world.begun("paris", *SITES)
    in_log_sync(world.link("paris", *SITES), *SITES)
    world.transmit("paris", b"first", to=SITES)
    for sink in sinks.values():
        eventually(lambda sink=sink: sink.kinds("paris") == ONCE)
    provider.served.clear()
    return Region(world, provider, sinks)


def again(sink: Recorder) -> bool:
    return sink.kinds("paris") == [*ONCE, "start 1", "snapshot 1", "complete 1"]


def test_a_snapshot_for_one_site_touches_no_other_site(region: Region) -> None:
    region.world.request_snapshots("paris", "tokyo")
    eventually(lambda: again(region.sinks["tokyo"]))
    region.settle()
    assert region.sinks["tokyo"].kinds("paris") == ONCE * 2
    assert region.sinks["lima"].kinds("paris") == region.sinks["osaka"].kinds("paris") == [*ONCE[:3], "log 2"]
    assert region.provider.served == ["tokyo"]


def test_a_snapshot_for_every_site_reaches_each_site_once(region: Region) -> None:
    region.world.request_snapshots("paris")
    eventually(lambda: all(map(again, region.sinks.values())))
    region.settle()
    assert all(sink.kinds("paris") == ONCE * 2 for sink in region.sinks.values())
    assert sorted(region.provider.served) == sorted(SITES)


def test_all_snapshots_requested_in_one_transaction_are_delivered(region: Region) -> None:
    region.world.request_snapshots("paris", *SITES)
    eventually(lambda: all(map(again, region.sinks.values())))
    region.settle()
    assert sorted(region.provider.served) == sorted(SITES)


def test_a_snapshot_requested_in_a_rolled_back_transaction_is_never_built(region: Region) -> None:
    with region.world.site("paris").connect() as connection:
        transaction = connection.begin()
        region.world.client.request_snapshot_sync(connection, "tokyo")
        transaction.rollback()
    region.settle()
    assert region.provider.served == []
