"""A site that no source can reach attaches itself, and gets its entries and snapshots over its own connections."""

from pathlib import Path

import pytest
import trustme

from lr_client import request_replay, wait_replay
from lr_server import LogReplicationServer, lasting_trouble
from lrq.cli.health import troubles
from queues.receive.replays import ReplayState
from queues.states import SessionState
from sink.transport.credentials import Credentials
from tests.certificates import issued
from tests.system.world import Messages, Recorder, World, in_log_sync, sessions_of
from tests.waiting import eventually

ROWS = [b"row %d" % number for number in range(40)]
HERE = {"tokyo": "attached:tokyo"}


def attached(world: World, *sources: LogReplicationServer, **options: object) -> LogReplicationServer:
    """Start a server of tokyo that listens nowhere, and is attached to servers of paris."""
    attach = {"paris": ",".join(source.endpoints[0] for source in sources)}
    return world.server("tokyo", listen=[], attach=attach, **options)


def files(credentials: Credentials) -> dict[str, object]:
    """Return the settings of TLS."""
    return {
        "tls_certificate": credentials.certificate,
        "tls_key": credentials.key,
        "tls_authority": credentials.authority,
    }


def test_a_snapshot_and_the_log_reach_a_site_that_listens_nowhere(world: World) -> None:
    world.provide("paris", Messages(lambda _context: ROWS), block_rows=4)
    recorder = world.subscribe("tokyo")
    paris = world.server("paris", peers=HERE, max_batch_bytes=1)
    world.transmit("paris", b"in the snapshot", to=["tokyo"])
    attached(world, paris)
    eventually(lambda: recorder.snapshot("paris") == ROWS)
    sent = [b"%d" % number for number in range(30)]
    for payload in sent:
        world.transmit("paris", payload, to=["tokyo"])
    paris.drain(timeout=30)
    eventually(lambda: recorder.log("paris")[-30:] == sent)
    assert recorder.kinds("paris")[:3] == ["start 1", f"snapshot {len(ROWS)}", "complete 1"]


def test_an_interrupted_snapshot_goes_on_over_the_next_attachment(world: World) -> None:
    provider = Messages(lambda _context: ROWS)
    world.provide("paris", provider, block_rows=1)
    recorder = world.subscribe("tokyo")
    paris = world.server("paris", peers=HERE, max_batch_bytes=1, window_frames=1)
    world.transmit("paris", b"in the snapshot", to=["tokyo"])
    first = attached(world, paris)
    # The thread of the test may be late: then the snapshot is over.
    under_way = (SessionState.SNAPSHOT_SYNC, SessionState.WAIT_FOR_APPLY, SessionState.LOG_ENTRY_SYNC)
    eventually(lambda: sessions_of(paris).get("tokyo", {}).get("state") in under_way)
    first.stop()
    attached(world, paris)
    eventually(lambda: recorder.snapshot("paris") == ROWS)
    world.transmit("paris", b"log", to=["tokyo"])
    eventually(lambda: recorder.log("paris")[-1:] == [b"log"])
    assert provider.served == ["tokyo"]


def test_both_sites_send_over_the_connections_of_one(world: World) -> None:
    recorder, back = world.subscribe("tokyo"), world.subscribe("paris")
    paris = world.server("paris", peers=HERE, initial_sync="log")
    attached(world, paris, peers={"paris": paris.endpoints[0]}, initial_sync="log")
    world.transmit("paris", b"there", to=["tokyo"])
    world.transmit("tokyo", b"and back", to=["paris"])
    eventually(lambda: recorder.log("paris") == [b"there"])
    eventually(lambda: back.log("tokyo") == [b"and back"])


def test_entries_wait_for_a_site_that_is_not_attached_and_the_status_says_so(world: World) -> None:
    paris = world.server("paris", peers=HERE, initial_sync="log")
    world.transmit("paris", b"1", to=["tokyo"])
    words = "tokyo is not attached to this server"
    eventually(lambda: words in sessions_of(paris).get("tokyo", {}).get("reason", ""))
    recorder = world.subscribe("tokyo")
    tokyo = attached(world, paris)
    eventually(lambda: recorder.log("paris") == [b"1"])
    tokyo.stop()
    world.transmit("paris", b"2", to=["tokyo"])
    eventually(lambda: words in sessions_of(paris)["tokyo"]["reason"])
    attached(world, paris)
    eventually(lambda: recorder.log("paris") == [b"1", b"2"])


def test_a_site_attaches_itself_again_to_a_source_that_comes_back(world: World) -> None:
    paris = world.server("paris", peers=HERE, initial_sync="log")
    endpoint = paris.endpoints[0]
    recorder = world.subscribe("tokyo")
    tokyo = attached(world, paris)
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"1"])
    paris.stop()
    words = f"this server is not attached to paris: {endpoint}"
    eventually(lambda: words in tokyo.status()["server"]["troubles"].get("attachment", ""))
    assert not tokyo.health_troubles()
    world.server("paris", listen=[endpoint], peers=HERE, initial_sync="log")
    world.transmit("paris", b"2", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"1", b"2"])
    eventually(lambda: "attachment" not in tokyo.status()["server"]["troubles"])


def test_the_sessions_of_several_servers_reach_a_site_that_is_attached_to_all(world: World) -> None:
    clients = [f"client-{number}" for number in range(6)]
    recorders = [world.subscribe("tokyo", Recorder(client)) for client in clients]
    sources = [world.server("paris", peers=HERE, initial_sync="log", lease_seconds=2.0) for _ in range(2)]
    first, second = attached(world, *sources), attached(world, *sources)
    for client in clients:
        world.transmit("paris", b"1", to=["tokyo"], client=client)
    eventually(lambda: all(each.log("paris") == [b"1"] for each in recorders))
    first.stop()
    sources[0].stop()
    for client in clients:
        world.transmit("paris", b"2", to=["tokyo"], client=client)
    eventually(lambda: all(each.log("paris") == [b"1", b"2"] for each in recorders))
    assert sum(second._endpoints.received.values()) > 0


def test_a_replay_that_is_ordered_at_an_attached_site_begins_at_once(world: World) -> None:
    paris = world.server(
        "paris", peers=HERE, initial_sync="log",
        acknowledged_retention_seconds=3600.0, heartbeat_seconds=300.0, stall_seconds=600.0,
    )  # fmt: skip
    recorder = world.subscribe("tokyo")
    attached(world, paris)
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"1"])
    in_log_sync(paris, "tokyo")
    tokyo = world.site("tokyo")
    done = wait_replay(tokyo, request_replay(tokyo, "policy", "paris", start=1, undo=False), 30)
    assert done.state is ReplayState.BEGUN
    eventually(lambda: recorder.log("paris") == [b"1", b"1"])


def test_a_removed_peer_is_not_attached_any_more(world: World) -> None:
    paris = world.server("paris", peers={"lima": "attached:lima"}, initial_sync="log")
    tokyo = attached(world, paris)
    words = 'paris has no peer tokyo with the endpoint "attached:tokyo": write that into its peers'
    eventually(lambda: words in tokyo.status()["server"]["troubles"].get("attachment", ""))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("127.0.0.1", "tokyo"), ""),
        (("127.0.0.1", "lima"), "the certificate shown names '127.0.0.1', 'lima', not site 'tokyo'"),
    ],
)
def test_with_tls_only_a_certificate_of_the_site_is_attached(
    world: World, tmp_path: Path, names: tuple[str, ...], words: str
) -> None:
    authority = trustme.CA()
    for site in ("paris", "tokyo"):
        (tmp_path / site).mkdir()
    of_paris, of_tokyo = issued(authority, tmp_path / "paris"), issued(authority, tmp_path / "tokyo", *names)
    paris = world.server("paris", listen=["tls://127.0.0.1:0"], peers=HERE, initial_sync="log", **files(of_paris))
    recorder = world.subscribe("tokyo")
    tokyo = attached(world, paris, **files(of_tokyo))
    world.transmit("paris", b"1", to=["tokyo"])
    if words:
        eventually(lambda: words in tokyo.status()["server"]["troubles"].get("attachment", ""))
        assert recorder.log("paris") == []
    else:
        eventually(lambda: recorder.log("paris") == [b"1"])


def test_the_status_of_the_site_tells_an_attachment_that_fails_for_long(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lasting_trouble, "LASTS", 0.2)
    tokyo = world.server("tokyo", listen=[], attach={"paris": "ipc:///nowhere/paris.sock"})
    words = "this server is not attached to paris: ipc:///nowhere/paris.sock cannot be reached"
    eventually(lambda: any(each.startswith(words) for each in troubles(tokyo.site_status())))
