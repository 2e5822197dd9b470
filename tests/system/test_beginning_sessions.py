"""The begin of a client's session, and its wait for a snapshot."""

from typing import Any

import pytest

from lr_server import LogReplicationServer
from lrq.cli.health import remarks, troubles
from lrq.cli.views.status import status_view
from lrq.cli.waits.drain import Scope, drain
from queues.send_log.named_sites import named_sites
from queues.states import SessionState
from tests.system.world import Messages, World, in_log_sync, sessions_of
from tests.waiting import eventually

#: The sentence of the trouble, of the warning in the log, and of `lrq status`.
UNPROVIDED = "no provider of client policy is running: start one (`lrq provide`), or set initial_sync"
WHY = {"log": "initial_sync is 'log' now", "auto": "no provider is there, and the log is whole"}


def waits(server: LogReplicationServer, destination: str) -> bool:
    found = sessions_of(server).get(destination, {})
    return found.get("state") == SessionState.SNAPSHOT_SYNC and "waiting for the provider" in found["reason"]


def peers(*sites: str) -> dict[str, Any]:
    return {"listen": [], "peers": {site: f"local:{site}" for site in sites}}


# --- only towards named sites ----------------------------------------------------------------------------------


def test_a_session_begins_with_the_first_entry_for_its_site(world: World) -> None:
    recorder = world.subscribe("lima")
    paris = world.link("paris", "tokyo", "lima", initial_sync="log")
    world.transmit("paris", b"1", to=["tokyo"])
    paris.drain(timeout=20)
    assert sessions_of(paris).keys() == {"tokyo"}
    found = paris.site_status()
    assert [pair.destination for pair in found.quiet] == ["lima"]
    assert troubles(found) == remarks(found) == []
    assert list(status_view(found).renderables)  # type: ignore[attr-defined]
    world.transmit("paris", b"2", to=["lima"])
    paris.drain(timeout=20)
    eventually(lambda: recorder.log("paris") == [b"2"])
    assert paris.site_status().quiet == ()


def test_a_session_goes_on_after_a_restart_though_its_entries_are_trimmed(world: World) -> None:
    paris = world.link("paris", "tokyo", initial_sync="log", segment_bytes=1)
    world.transmit("paris", b"1", to=["tokyo"])
    paris.drain(timeout=20)

    def is_trimmed() -> bool:
        paris._source.trim()  # type: ignore[union-attr]
        return bool(paris.status()["log"]["trimmed_seq"])

    eventually(is_trimmed)
    with world.site("paris").connect() as connection:
        assert named_sites(connection) == []
    paris.stop()
    world.provide("paris", Messages(lambda _: []))  # makes the client known
    paris = world.server("paris", **peers("tokyo"), initial_sync="log")
    in_log_sync(paris, "tokyo")


def test_a_requested_snapshot_begins_the_session_of_its_pair_only(world: World) -> None:
    world.provide("paris", Messages(lambda _: [b"state"]))
    recorder = world.subscribe("lima")
    paris = world.link("paris", "tokyo", "lima")
    world.request_snapshots("paris", "lima")
    in_log_sync(paris, "lima")
    eventually(lambda: recorder.snapshot("paris") == [b"state"])
    assert sessions_of(paris).keys() == {"lima"}
    world.request_snapshots("paris")
    in_log_sync(paris, "lima", "tokyo")


def test_drain_waits_for_a_session_that_begins_and_not_for_a_quiet_peer(world: World) -> None:
    paris = world.link("paris", "tokyo", "lima", initial_sync="log")
    world.transmit("paris", b"1", to=["tokyo"])
    assert drain(world.site("paris"), Scope(destinations=frozenset({"tokyo"})), 20).drained
    assert drain(world.site("paris"), Scope(destinations=frozenset({"lima"})), 20).drained
    refused = drain(world.site("paris"), Scope(destinations=frozenset({"oslo"})), 0)
    assert refused.missing == ("oslo",)
    paris.stop()
    world.transmit("paris", b"2", to=["lima"])
    with_ticks = world.server("paris", **peers("tokyo"), initial_sync="log")
    eventually(lambda: with_ticks.status()["log"]["waiting"] == 0)
    with_ticks.stop()
    # The peers of the last server are recorded; a server with lima among them has not worked since.
    world.execute("paris", "UPDATE lrq_known_sites SET peers = 'lima,tokyo'")
    assert drain(world.site("paris"), Scope(), 0).missing == ("lima",)


# --- a provider that does not run -------------------------------------------------------------------------------


def test_a_session_that_waits_for_a_provider_that_does_not_run_is_trouble(world: World) -> None:
    paris = world.link("paris", "tokyo", initial_sync="snapshot")
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: waits(paris, "tokyo"))
    (trouble,) = troubles(paris.site_status())
    assert trouble.startswith(f"tokyo waits for a snapshot, and {UNPROVIDED}")
    world.provide("paris", Messages(lambda _: [b"state"]))
    in_log_sync(paris, "tokyo")
    assert troubles(paris.site_status()) == []


def test_a_provider_that_has_ended_serves_no_session(world: World) -> None:
    world.site("paris")
    provider = world.client.start_snapshot_transmitter(world.site("paris"), Messages(lambda _: [b"state"]))
    paris = world.link("paris", "tokyo", "lima")
    world.transmit("paris", b"1", to=["tokyo"])
    in_log_sync(paris, "tokyo")
    provider.close()
    world.transmit("paris", b"2", to=["lima"])
    eventually(lambda: waits(paris, "lima"))
    (trouble,) = troubles(paris.site_status())
    assert UNPROVIDED in trouble


# --- another initial_sync ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", ["auto", "log"])
def test_a_session_that_waited_for_its_first_snapshot_begins_with_the_log_after_the_setting_has_changed(
    world: World, setting: str
) -> None:
    recorder = world.subscribe("tokyo")
    paris = world.link("paris", "tokyo", initial_sync="snapshot")
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: waits(paris, "tokyo"))
    paris.stop()
    paris = world.server("paris", **peers("tokyo"), initial_sync=setting)
    eventually(lambda: recorder.log("paris") == [b"1"])
    assert recorder.kinds("paris") == ["log 1"]
    assert troubles(paris.site_status()) == []
    (snapshot,) = paris.status()["snapshots"]
    assert (snapshot["state"], snapshot["error"]) == ("cancelled", f"{WHY[setting]}: the session begins with the log")


@pytest.mark.parametrize("setting", ["auto", "log"])
def test_an_ordered_snapshot_is_awaited_with_each_setting(world: World, setting: str) -> None:
    recorder = world.subscribe("tokyo")
    paris = world.link("paris", "tokyo", initial_sync=setting)
    world.request_snapshots("paris", "tokyo")
    eventually(lambda: waits(paris, "tokyo"))
    paris.stop()
    paris = world.server("paris", **peers("tokyo"), initial_sync=setting)
    eventually(lambda: waits(paris, "tokyo"))
    world.provide("paris", Messages(lambda _: [b"state"]))
    in_log_sync(paris, "tokyo")
    eventually(lambda: recorder.snapshot("paris") == [b"state"])


def test_with_an_unchanged_setting_the_session_waits_on_after_a_restart(world: World) -> None:
    paris = world.link("paris", "tokyo", initial_sync="snapshot")
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: waits(paris, "tokyo"))
    (before,) = paris.status()["snapshots"]
    paris.stop()
    paris = world.server("paris", **peers("tokyo"), initial_sync="snapshot")
    eventually(lambda: waits(paris, "tokyo"))
    (after,) = paris.status()["snapshots"]
    assert after["sync_id"] == before["sync_id"]
