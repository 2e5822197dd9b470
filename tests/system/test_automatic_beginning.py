"""The default setting: a session begins with the log where the log is whole, and otherwise with a snapshot."""

import pytest

from lr_server import LogReplicationServer
from lrq.cli.health import troubles
from queues.send_snapshot import ABSENCE
from tests.system.test_beginning_sessions import UNPROVIDED, peers, waits
from tests.system.world import Messages, World, in_log_sync
from tests.waiting import eventually

STATE = Messages(lambda _: [b"state"])


def emptied(server: LogReplicationServer, world: World) -> None:
    """Trim until tokyo's entries are gone."""

    def is_trimmed() -> bool:
        server._source.trim()  # type: ignore[union-attr]
        return not world.execute("paris", "SELECT 1 FROM lrq_tag_set_members")

    eventually(is_trimmed)


def provider_left_long_ago(world: World) -> None:
    long_ago = int((ABSENCE + 1) * 1_000_000)
    world.execute("paris", "UPDATE lrq_snapshot_providers SET owner = '', seen_us = seen_us - :us", us=long_ago)


def test_without_a_provider_the_first_entry_arrives_with_the_default_settings(world: World) -> None:
    recorder = world.subscribe("tokyo")
    world.transmit("paris", b"before the server", to=["tokyo"])
    paris = world.link("paris", "tokyo")
    world.transmit("paris", b"after", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"before the server", b"after"])
    assert recorder.kinds("paris") == ["log 2"]
    paris.drain(timeout=20)
    assert paris.status()["snapshots"] == []
    assert troubles(paris.site_status()) == []


def test_with_a_provider_a_session_asks_for_a_snapshot_first(world: World) -> None:
    recorder = world.subscribe("tokyo")
    world.provide("paris", STATE)
    world.transmit("paris", b"1", to=["tokyo"])
    in_log_sync(world.link("paris", "tokyo"), "tokyo")
    eventually(lambda: recorder.kinds("paris")[:3] == ["start 1", "snapshot 1", "complete 1"])


def test_a_session_that_has_begun_with_the_log_goes_on_though_a_provider_comes(world: World) -> None:
    recorder = world.subscribe("tokyo")
    paris = world.link("paris", "tokyo")
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"1"])
    world.provide("paris", STATE)
    paris.stop()
    paris = world.server("paris", **peers("tokyo"))
    world.transmit("paris", b"2", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"1", b"2"])
    assert recorder.kinds("paris") == ["log 2"]


def test_a_site_that_no_entry_ever_named_begins_with_the_log_though_the_log_of_others_is_trimmed(world: World) -> None:
    recorder = world.subscribe("lima")
    paris = world.link("paris", "tokyo", "lima", segment_bytes=1)
    world.transmit("paris", b"1", to=["tokyo"])
    paris.drain(timeout=20)
    emptied(paris, world)
    world.transmit("paris", b"2", to=["lima", "tokyo"])
    eventually(lambda: recorder.log("paris") == [b"2"])
    assert paris.status()["snapshots"] == []


def test_a_site_whose_entries_were_trimmed_before_it_was_a_peer_waits_for_a_snapshot(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    paris = world.link("paris", "tokyo", segment_bytes=1, unknown_retention_seconds=1e-6)
    world.server("lima", listen=[])
    world.transmit("paris", b"1", to=["lima", "tokyo"])
    paris.drain(timeout=20)
    emptied(paris, world)
    paris.stop()
    world.execute("paris", "DELETE FROM lrq_dropped_entries")  # as `lrq trim --forget-dropped` does
    paris = world.server("paris", **peers("tokyo", "lima"))
    world.transmit("paris", b"2", to=["lima", "tokyo"])
    eventually(lambda: waits(paris, "lima"))
    eventually(lambda: UNPROVIDED in caplog.text)
    (trouble,) = troubles(paris.site_status())
    assert trouble.startswith(f"lima waits for a snapshot, and {UNPROVIDED}")


def test_a_sink_that_lost_its_database_waits_for_a_snapshot_once_the_log_is_trimmed(world: World) -> None:
    paris = world.link("paris", "tokyo", segment_bytes=1)
    world.transmit("paris", b"1", to=["tokyo"])
    paris.drain(timeout=20)
    emptied(paris, world)
    for table in ("queues", "marks", "headers", "blocks"):
        world.execute("tokyo", f"DELETE FROM lrq_receive_{table}")
    paris.stop()
    world.transmit("paris", b"2", to=["tokyo"])
    paris = world.server("paris", **peers("tokyo"))
    eventually(lambda: waits(paris, "tokyo"))


def test_a_provider_that_leaves_before_the_first_snapshot_lets_the_session_begin_with_the_log(world: World) -> None:
    recorder = world.subscribe("tokyo")
    provider = world.client.start_snapshot_transmitter(world.site("paris"), STATE)
    provider.close()
    paris = world.link("paris", "tokyo")
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: waits(paris, "tokyo"))
    provider_left_long_ago(world)
    eventually(lambda: recorder.log("paris") == [b"1"])
    assert recorder.kinds("paris") == ["log 1"]
    (snapshot,) = paris.status()["snapshots"]
    assert (snapshot["state"], "left before the first snapshot" in snapshot["error"]) == ("cancelled", True)


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "once completed"])
def test_a_session_waits_on_for_a_provider_whose_snapshots_are_known_or_wanted(
    world: World, caplog: pytest.LogCaptureFixture, ordered: bool
) -> None:
    provider = world.client.start_snapshot_transmitter(world.site("paris"), STATE)
    paris = world.link("paris", "tokyo", "lima")
    if not ordered:
        world.transmit("paris", b"1", to=["lima"])
        in_log_sync(paris, "lima")
    provider.close()
    provider_left_long_ago(world)
    if ordered:
        world.request_snapshots("paris", "tokyo")
    else:
        world.transmit("paris", b"2", to=["tokyo"])
    eventually(lambda: waits(paris, "tokyo"))
    eventually(lambda: UNPROVIDED in caplog.text)
    assert waits(paris, "tokyo")
