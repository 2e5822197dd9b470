"""Peers as data: running servers follow the table and providers, and sessions move without loss."""

import random
import re
import threading
from collections.abc import Callable
from ipaddress import ip_address

import pytest

from lr_server import LogReplicationServer, PeerList
from lr_server.topology.machine import machine_addresses
from lr_server.topology.rules import OwnSite
from lr_server.topology.table import add_peer, drop_peer
from lrq.cli.health import troubles
from lrq.cli.views.status import topology_words
from queues.clock import SYSTEM_CLOCK
from queues.database import servers
from queues.database.peers import PeerRow
from queues.errors import ConfigurationError
from queues.names import SiteId
from queues.states import SessionState
from tests.system.test_topology import begin, connected
from tests.system.world import World, in_log_sync, sessions_of
from tests.waiting import eventually

QUICKLY = {"topology_poll_seconds": 0.05, "initial_sync": "log", "listen": []}


def put(world: World, site: str, endpoint: str, at: str = "paris") -> int:
    return add_peer(world.site(at), PeerRow(SiteId(site), endpoint), OwnSite(at)).version


def drop(world: World, site: str) -> None:
    drop_peer(world.site("paris"), SiteId(site))


def versions(world: World) -> list[int]:
    """Return the versions of the peers that the living servers of paris follow."""
    return [row.topology.version for row in servers.look(world.site("paris")).living.values()]


def test_a_peer_that_is_added_gets_its_entries_without_a_restart(world: World) -> None:
    begin(world, "tokyo", "lima")
    recorder, other = world.subscribe("tokyo"), world.subscribe("lima")
    put(world, "lima", "local:lima")
    paris = world.server("paris", topology="table", **QUICKLY)
    world.transmit("paris", b"before", to=["tokyo"])
    world.transmit("paris", b"another's", to=["lima"])
    eventually(lambda: [each.entries for each in paris.site_status().log.unknown] == [1])
    put(world, "tokyo", "local:tokyo")
    eventually(lambda: recorder.log("paris") == [b"before"])
    in_log_sync(paris, "tokyo")
    paris.drain(timeout=20)
    eventually(lambda: (recorder.log("paris"), other.log("paris")) == ([b"before"], [b"another's"]))
    assert troubles(paris.site_status()) == []


def test_a_peer_that_is_removed_ends_its_session_and_one_that_comes_back_misses_nothing(world: World) -> None:
    world.server("tokyo", listen=[])
    recorder = world.subscribe("tokyo")
    put(world, "tokyo", "local:tokyo")
    paris = world.server("paris", topology="table", **QUICKLY)
    world.transmit("paris", b"first", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"first"])
    drop(world, "tokyo")
    eventually(lambda: sessions_of(paris)["tokyo"]["state"] == SessionState.INACTIVE)
    world.transmit("paris", b"meanwhile", to=["tokyo"])
    eventually(lambda: "which is no peer" in "".join(troubles(paris.site_status())))
    put(world, "tokyo", "local:tokyo")
    eventually(lambda: recorder.log("paris") == [b"first", b"meanwhile"])
    assert troubles(paris.site_status()) == []


def test_no_entry_is_lost_or_doubled_while_a_site_under_load_moves(world: World) -> None:
    tokyo = world.server("tokyo", listen=["tcp://127.0.0.1:0", "tcp://127.0.0.1:0"])
    recorder = world.subscribe("tokyo")
    first, second = tokyo.endpoints
    put(world, "tokyo", first)
    paris = world.server("paris", topology="table", **QUICKLY)
    sent: list[bytes] = []
    ending = threading.Event()

    def write() -> None:
        while not SYSTEM_CLOCK.wait(ending, 0.002):
            payload = f"{len(sent)}".encode()
            world.transmit("paris", payload, to=["tokyo"])
            sent.append(payload)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(8):
            there, before = (second, first) if number % 2 == 0 else (first, second)
            enough = len(sent) + 10
            eventually(lambda enough=enough: len(recorder.log("paris")) >= enough)
            put(world, "tokyo", there)
            eventually(lambda there=there, before=before: connected(there) and not connected(before))
    finally:
        ending.set()
        writer.join()
    paris.drain(timeout=30)
    eventually(lambda: len(recorder.log("paris")) >= len(sent))
    assert recorder.log("paris") == sent
    assert sessions_of(paris)["tokyo"]["state"] == SessionState.LOG_ENTRY_SYNC


def test_entries_arrive_once_and_in_order_through_random_changes(world: World, chance: random.Random) -> None:
    """A peer is moved, removed and added at random, while entries are written and snapshots are not needed."""
    tokyo = world.server("tokyo", listen=["tcp://127.0.0.1:0", "tcp://127.0.0.1:0"])
    recorder = world.subscribe("tokyo")
    ways = [*tokyo.endpoints, "local:tokyo", ", ".join(tokyo.endpoints)]
    put(world, "tokyo", chance.choice(ways))
    both = [world.server("paris", topology="table", lease_seconds=30.0, **QUICKLY) for _ in range(2)]
    sent: list[bytes] = []
    for _ in range(25):
        for _ in range(chance.randrange(4)):
            sent.append(b"%d" % len(sent))
            world.transmit("paris", sent[-1], to=["tokyo"])
        if chance.random() < 0.4:
            drop(world, "tokyo")
        else:
            put(world, "tokyo", chance.choice(ways))
        if chance.random() < 0.5:
            both[chance.randrange(2)].reload_peers()
    put(world, "tokyo", chance.choice(ways))
    eventually(lambda: len(recorder.log("paris")) >= len(sent))
    both[0].drain(timeout=30)
    assert recorder.log("paris") == sent


@pytest.mark.nightly
def test_all_servers_of_a_site_notice_a_change_and_the_status_shows_their_version(world: World) -> None:
    sinks = [f"sink{number}" for number in range(6)]
    for sink in sinks:
        world.server(sink, listen=[])
    recorders = {sink: world.subscribe(sink) for sink in sinks}
    both = [world.server("paris", topology="table", lease_seconds=30.0, **QUICKLY) for _ in range(2)]
    eventually(lambda: len(versions(world)) == 2 and all(server.server_status().ranges for server in both))
    for sink in sinks:
        version = put(world, sink, f"local:{sink}")
    eventually(lambda: versions(world) == [version, version])
    world.transmit("paris", b"1", to=sinks)
    eventually(lambda: all(recorder.log("paris") == [b"1"] for recorder in recorders.values()))
    # The ranges of a few sessions may all be those of one server, but not those of many.
    for number in range(8):
        world.transmit("paris", b"1", to=sinks, client=f"client{number}")
    # A session has no server for a while if its lease has expired on a busy machine.
    eventually(lambda: len({each["server"] for each in both[0].status()["sessions"]} - {None}) == 2)
    wanted = 2 * [{"source": "the table lrq_peers", "version": version, "trouble": ""}]
    eventually(lambda: [each["topology"] for each in both[0].status()["servers"] if each["alive"]] == wanted)
    assert both[0].status()["server"]["topology"]["version"] == version
    assert topology_words(both[0].server_status().topology) == f"from the table lrq_peers, version {version}"


class Directory:
    """A provider of the application, whose answer a test changes."""

    answer: object = PeerList({"tokyo": "local:tokyo"}, version=1)

    def read(self) -> PeerList:
        if isinstance(self.answer, Exception):
            raise self.answer
        found: PeerList = self.answer  # type: ignore[assignment]
        return found


@pytest.fixture
def directory(monkeypatch: pytest.MonkeyPatch) -> Directory:
    """Give the provider that `topology = "directory_of_tests:found"` names."""
    import sys
    from types import ModuleType

    made, module = Directory(), ModuleType("directory_of_tests")
    module.found = made  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return made


def test_a_provider_that_fails_or_talks_nonsense_keeps_the_last_good_peers(world: World, directory: Directory) -> None:
    world.server("tokyo", listen=[])
    recorder = world.subscribe("tokyo")
    # So long a lease would hide the trouble for minutes, unless the server tells it at once.
    paris = world.server("paris", topology="directory_of_tests:found", lease_seconds=600.0, **QUICKLY)
    for number, (wrong, words) in enumerate(
        [
            (RuntimeError("no token"), "RuntimeError: no token"),
            (PeerList({"paris": "local:paris"}, version=9), "peers names 'paris', which is this site itself"),
            (PeerList({}, version=0), "count from 1"),
        ]
    ):
        directory.answer = wrong
        eventually(lambda words=words: words in "".join(troubles(paris.site_status())))
        (trouble,) = troubles(paris.site_status())
        assert trouble.startswith("the peers cannot be read from directory_of_tests:found, and version 1 of the peers")
        world.transmit("paris", b"%d" % number, to=["tokyo"])
        eventually(lambda number=number: len(recorder.log("paris")) == number + 1)
    assert "topology" in paris.status()["server"]["troubles"]
    directory.answer = PeerList({"tokyo": "local:tokyo"}, version=2)
    eventually(lambda: troubles(paris.site_status()) == [])
    assert paris.status()["server"]["topology"]["version"] == 2


def test_a_server_whose_provider_fails_from_the_start_ends_no_session(world: World, directory: Directory) -> None:
    world.server("tokyo", listen=[])
    recorder = world.subscribe("tokyo")
    paris = world.server("paris", topology="directory_of_tests:found", **QUICKLY)
    world.transmit("paris", b"first", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"first"])
    paris.stop()
    directory.answer = RuntimeError("no token")
    paris = world.server("paris", topology="directory_of_tests:found", **QUICKLY)
    world.transmit("paris", b"meanwhile", to=["tokyo"])
    eventually(lambda: "no peers are known yet: RuntimeError: no token" in "".join(troubles(paris.site_status())))
    eventually(lambda: paris.site_status().log.seq == 2)
    assert sessions_of(paris)["tokyo"]["state"] != SessionState.INACTIVE
    directory.answer = PeerList({"tokyo": "local:tokyo"}, version=1)
    eventually(lambda: recorder.log("paris") == [b"first", b"meanwhile"])


def test_no_entry_is_dropped_while_no_peers_are_known(world: World, directory: Directory) -> None:
    world.server("tokyo", listen=[])
    recorder = world.subscribe("tokyo")
    directory.answer = RuntimeError("no token")
    short = {"segment_bytes": 1, "trim_seconds": 3600, "unknown_retention_seconds": 1e-6}
    paris = world.server("paris", topology="directory_of_tests:found", **QUICKLY, **short)
    source = paris._source
    assert source is not None
    sent = [b"%d" % number for number in range(5)]
    for number, payload in enumerate(sent, start=1):
        world.transmit("paris", payload, to=["tokyo"])
        eventually(lambda number=number: paris.site_status().log.seq == number)
        source.trim()
    assert paris.site_status().log.trimmed_seq == 0
    directory.answer = PeerList({"tokyo": "local:tokyo"}, version=1)
    eventually(lambda: recorder.log("paris") == sent)


def test_a_topology_that_does_not_exist_is_refused_before_anything_begins(world: World) -> None:
    with pytest.raises(ConfigurationError, match="there is no topology 'tabel': did you mean 'table'"):
        world.server("paris", topology="tabel")


def test_peers_of_the_settings_beside_another_place_are_warned_about(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    paris = world.server("paris", topology="table", peers={"tokyo": "local:tokyo"}, **QUICKLY)
    assert "`peers` of the settings is not used" in caplog.text
    assert paris.status()["server"]["topology"]["source"] == "the table lrq_peers"
    assert paris._topology.peers() == {}


def test_a_peer_at_an_address_of_this_server_is_refused_at_the_start(world: World) -> None:
    paris = world.server("paris", listen=["tcp://0.0.0.0:0"])
    (own, *_) = endpoints_told(world)
    paris.stop()
    port = own.rpartition(":")[2]
    words = rf"peers\[tokyo\]: {re.escape(own)} leads to this site itself"
    with pytest.raises(ConfigurationError, match=words):
        world.server("paris", listen=[f"tcp://0.0.0.0:{port}"], peers={"tokyo": own})


def endpoints_told(world: World) -> tuple[str, ...]:
    (row,) = servers.look(world.site("paris")).living.values()
    return row.endpoints


@pytest.mark.parametrize(
    ("listen", "host"), [("tcp://0.0.0.0:0", "127.0.0.1"), ("tcp://[::]:0", "127.0.0.1"), ("tcp://127.0.0.1:0", "")]
)
def test_other_servers_are_told_an_address_in_the_preferred_network(world: World, listen: str, host: str) -> None:
    paris = world.server("paris", listen=[listen], preferred_network=["127.0.0.0/8"])
    port = paris.endpoints[0].rpartition(":")[2]
    assert endpoints_told(world) == (f"tcp://{host or '127.0.0.1'}:{port}",)


@pytest.mark.skipif(ip_address("::1") not in machine_addresses(), reason="this machine has no IPv6")
def test_other_servers_are_told_an_address_in_a_preferred_network_of_ipv6(world: World) -> None:
    paris = world.server("paris", listen=["tcp://[::]:0"], preferred_network=["::1/128", "127.0.0.0/8"])
    port = paris.endpoints[0].rpartition(":")[2]
    assert endpoints_told(world) == (f"tcp://[::1]:{port}", f"tcp://127.0.0.1:{port}")


def test_sites_with_the_same_port_at_two_addresses_are_told_apart(world: World) -> None:
    """Address and port name a site, and one process connects to both."""
    (here,) = world.server("tokyo").endpoints
    there = here.replace("127.0.0.1", "127.0.0.2")
    world.server("lima", listen=[there])
    recorders = {site: world.subscribe(site) for site in ("tokyo", "lima")}
    for site, endpoint in (("tokyo", here), ("lima", there)):
        put(world, site, endpoint)
    paris = world.server("paris", topology="table", **QUICKLY)
    for number in range(5):
        for site in recorders:
            world.transmit("paris", f"{site} {number}".encode(), to=[site])
    paris.drain(timeout=20)
    for site, recorder in recorders.items():
        eventually(lambda site=site, recorder=recorder: len(recorder.log("paris")) == 5)
        assert recorder.log("paris") == [f"{site} {number}".encode() for number in range(5)]


def test_other_servers_are_never_told_a_wildcard(world: World) -> None:
    world.server("paris", listen=["tcp://0.0.0.0:0"])
    assert endpoints_told(world) != ()
    assert [each for each in endpoints_told(world) if "0.0.0.0" in each] == []


def test_a_server_without_an_address_in_the_preferred_network_does_not_start(world: World) -> None:
    with pytest.raises(ConfigurationError, match=r"this server is in preferred_network 203\.0\.113\.0/24"):
        world.server("paris", listen=["tcp://0.0.0.0:0"], preferred_network="203.0.113.0/24")
    assert servers.look(world.site("paris")).living == {}


def test_a_peer_in_this_process_or_on_this_machine_is_preferred_to_the_network(
    world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("s") / "tokyo.sock"
    listen = ["tcp://127.0.0.1:0", f"ipc://{path}"]
    tokyo = world.server("tokyo", listen=listen)
    over_tcp, over_ipc = tokyo.endpoints
    put(world, "tokyo", f"{over_tcp}, {over_ipc}")
    paris = world.server("paris", topology="table", **QUICKLY)
    recorder = world.subscribe("tokyo")
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"1"])
    assert used(paris)("tokyo") == over_ipc
    put(world, "tokyo", f"{over_tcp}, local:tokyo, {over_ipc}")
    eventually(lambda: used(paris)("tokyo") == "local:tokyo")
    world.transmit("paris", b"2", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"1", b"2"])
    assert not connected(over_tcp)


def used(server: LogReplicationServer) -> Callable[[str], str]:
    """Return a function that gives the endpoint which the session with a site uses."""
    source = server._source
    assert source is not None
    routes = source._sinks.routes._routes

    def endpoint(site: str) -> str:
        (route,) = (route for owed, route in routes.items() if owed.destination == site)
        return route.endpoints[route.choice.at]

    return endpoint
