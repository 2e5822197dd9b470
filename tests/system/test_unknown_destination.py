"""Entries for a site outside the topology are kept until retention, and sent once the site appears."""

from typing import Any

import pytest

from lr_server import LogReplicationServer
from tests.system.world import Messages, World, in_log_sync
from tests.waiting import eventually

KYOTO = [b"first", b"second", b"third"]


def before_it_is_known(world: World) -> None:
    """Write for kyoto and tokyo while only tokyo is known; then trim the log as far as possible."""
    recorder = world.subscribe("tokyo")
    paris = world.link("paris", "tokyo", initial_sync="log", segment_bytes=1)
    for payload in KYOTO:
        world.transmit("paris", payload, to=["kyoto"])
        world.transmit("paris", payload, to=["tokyo"])
    paris.drain(timeout=20)
    trim(world, paris)
    eventually(lambda: recorder.log("paris") == [*KYOTO, b"segment 1", b"segment 2"])
    paris.stop()


def trim(world: World, paris: LogReplicationServer) -> None:
    """Trim, with newer entries behind: the newest segment is never trimmed."""
    for number in (1, 2):
        paris._source.trim()
        world.transmit("paris", f"segment {number}".encode(), to=["tokyo"])
        paris.drain(timeout=20)
    paris._source.trim()


def appears(world: World, **options: Any) -> LogReplicationServer:
    world.server("kyoto", listen=[])
    return world.server("paris", listen=[], peers={"tokyo": "local:tokyo", "kyoto": "local:kyoto"}, **options)


def test_a_new_site_gets_its_entries_from_the_log(world: World) -> None:
    before_it_is_known(world)
    kyoto = world.subscribe("kyoto")
    appears(world, initial_sync="log")
    eventually(lambda: kyoto.log("paris") == KYOTO)
    world.transmit("paris", b"fourth", to=["kyoto"])
    eventually(lambda: kyoto.log("paris") == [*KYOTO, b"fourth"])
    assert kyoto.kinds("paris") == ["log 4"]


def test_a_new_site_gets_its_entries_inside_its_snapshot(world: World) -> None:
    before_it_is_known(world)
    world.provide("paris", Messages(lambda _: [b"all three"]))
    kyoto = world.subscribe("kyoto")
    in_log_sync(appears(world), "kyoto")
    world.transmit("paris", b"fourth", to=["kyoto"])
    eventually(lambda: kyoto.log("paris") == [b"fourth"])
    assert kyoto.snapshot("paris") == [b"all three"]
    assert kyoto.kinds("paris") == ["start 1", "snapshot 1", "complete 1", "log 1"]


@pytest.mark.parametrize("initial_sync", ["log", "snapshot"])
def test_retention_drops_the_entries_of_a_new_site_without_delaying_the_others(world: World, initial_sync: str) -> None:
    before_it_is_known(world)
    world.provide("paris", Messages(lambda _: [b"state"]))
    paris = world.server(
        "paris", listen=[], peers={"tokyo": "local:tokyo"}, initial_sync="log", segment_bytes=1, retention_seconds=1e-6
    )
    in_log_sync(paris, "tokyo")
    trim(world, paris)
    assert paris.status()["log"]["trimmed_seq"] >= 2 * len(KYOTO)
    paris.stop()
    kyoto = world.subscribe("kyoto")
    in_log_sync(appears(world, initial_sync=initial_sync), "kyoto")
    world.transmit("paris", b"fourth", to=["kyoto"])
    eventually(lambda: kyoto.log("paris") == [b"fourth"])
    assert kyoto.snapshot("paris") == ([] if initial_sync == "log" else [b"state"])
