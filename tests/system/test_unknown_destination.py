"""Entries for a site outside the topology are told, kept for a while, and sent if the site appears meanwhile."""

from typing import Any

import pytest

from lr_server import LogReplicationServer
from lrq.cli.health import troubles
from queues.errors import UnknownDestinationError
from queues.send_log import destination_check
from tests.system.world import Messages, World, in_log_sync, sessions_of
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
    world.begun("paris", "kyoto")
    in_log_sync(appears(world, initial_sync=initial_sync), "kyoto")
    world.transmit("paris", b"fourth", to=["kyoto"])
    eventually(lambda: kyoto.log("paris") == [b"fourth"])
    assert kyoto.snapshot("paris") == ([] if initial_sync == "log" else [b"state"])


# --- a name that is no peer ------------------------------------------------------------------------------------


def test_a_misspelt_site_is_told_in_the_status_and_in_the_log_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    paris = world.link("paris", "tokyo", initial_sync="log")
    world.transmit("paris", b"1", b"2", to=["tokyo", "tokio"])
    paris.drain(timeout=20)
    (told,) = paris.status()["log"]["unknown_destinations"]
    assert (told["client"], told["destination"], told["entries"], told["dropped"]) == ("policy", "tokio", 2, 0)
    assert told["oldest_seconds"] > 0
    (trouble,) = troubles(paris.site_status())
    assert trouble.startswith("2 entries of policy for tokio, which is no peer, the oldest for ")
    for _ in range(3):
        paris._source.trim()  # type: ignore[union-attr]
    warnings = [record for record in caplog.records if "no peer" in record.getMessage()]
    assert len(warnings) == 1


def test_a_misspelt_site_pins_no_segment_beyond_its_own_time_and_the_loss_is_told(world: World) -> None:
    recorder = world.subscribe("tokyo")
    paris = world.link("paris", "tokyo", initial_sync="log", segment_bytes=1, unknown_retention_seconds=1e-6)
    world.transmit("paris", b"1", to=["tokyo", "tokio"])
    paris.drain(timeout=20)
    trim(world, paris)
    eventually(lambda: recorder.log("paris") == [b"1", b"segment 1", b"segment 2"])

    def is_trimmed() -> bool:
        paris._source.trim()  # type: ignore[union-attr]
        return bool(paris.status()["log"]["trimmed_seq"] >= 1)

    eventually(is_trimmed)
    (told,) = paris.status()["log"]["unknown_destinations"]
    assert (told["destination"], told["entries"], told["dropped"]) == ("tokio", 0, 1)


def test_a_peer_that_is_away_loses_nothing_after_the_time_of_unknown_destinations(world: World) -> None:
    world.site("kyoto")
    world.server("tokyo", listen=[])
    peers = {"tokyo": "local:tokyo", "kyoto": "local:kyoto"}
    options: dict[str, Any] = {"initial_sync": "log", "segment_bytes": 1, "unknown_retention_seconds": 1e-6}
    paris = world.server("paris", listen=[], peers=peers, **options)
    world.transmit("paris", *KYOTO, to=["kyoto", "tokyo", "tokio"])
    in_log_sync(paris, "tokyo")
    eventually(lambda: sessions_of(paris)["tokyo"]["lag"]["entries"] == 0)
    paris._source.trim()  # type: ignore[union-attr]
    paris._source.trim()  # type: ignore[union-attr]
    assert paris.status()["log"]["trimmed_seq"] == 0
    kyoto = world.subscribe("kyoto")
    world.server("kyoto", listen=[])
    eventually(lambda: kyoto.log("paris") == KYOTO)


def test_a_strict_server_makes_senders_refuse_unknown_names(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(destination_check, "FRESH", 0.0)
    paris = world.link("paris", "tokyo", initial_sync="log", known_destinations_only=True)
    world.transmit("paris", b"1", to=["tokyo"])
    paris.drain(timeout=20)
    with pytest.raises(UnknownDestinationError, match="did you mean 'tokyo'"):
        world.transmit("paris", b"2", to=["tokio"])
    assert paris.status()["log"]["unknown_destinations"] == []
