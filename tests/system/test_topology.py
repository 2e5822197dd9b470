"""Peers that come and go: at a restart of the server, or while it runs."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import psutil
import pytest

from discovery.topology import Peer, StaticTopology
from lr_server.session import stream_threads
from lr_server.source import sink_connector
from lrq.cli.health import remarks, troubles
from lrq.cli.link_actions import forget
from lrq.cli.waits.drain import Scope, drain
from queues.database.transactions import reading
from queues.names import SiteId
from queues.replica_groups import Groups
from queues.send_log.known_sites import read_known
from queues.send_log.links import unclaimed
from queues.send_log.port import SessionKey
from queues.states import SessionState
from tests.system.world import Messages, World, in_log_sync, sessions_of
from tests.waiting import eventually


class Changing:
    """A topology of sites in this process that a test can change."""

    def __init__(self, *sites: str) -> None:
        self.version = 0
        self.change(*sites)

    def change(self, *sites: str) -> None:
        self._now = StaticTopology({site: f"local:{site}" for site in sites})
        self.version += 1

    def peers(self) -> Mapping[SiteId, Peer]:
        return self._now.peers()

    def replicas(self) -> Groups:
        return self._now.replicas()


def begin(world: World, *sites: str) -> None:
    for site in sites:
        world.server(site, listen=[])


def send(world: World, payload: bytes, to: Sequence[str] = ("tokyo", "lima")) -> None:
    world.transmit("paris", payload, to=to)


def known_peers(world: World) -> frozenset[str]:
    with reading(world.site("paris")) as connection:
        known = read_known(connection)
    return frozenset() if known is None else known.peers


def test_drain_ignores_a_site_removed_from_the_peers_and_health_tells_only_its_new_entries(world: World) -> None:
    paris = world.link("paris", "tokyo", "lima", initial_sync="log")
    send(world, b"both")
    paris.drain(timeout=20)
    paris.stop()
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"})
    send(world, b"one of them has it")
    paris.drain(timeout=20)
    assert drain(world.site("paris"), Scope(), 20).drained
    eventually(lambda: sessions_of(paris)["lima"]["state"] == SessionState.INACTIVE)
    lima = sessions_of(paris)["lima"]
    assert (lima["lag"]["entries"], lima["stalled"]) == (0, False)
    found = paris.site_status()
    (trouble,) = troubles(found)
    assert trouble.startswith("1 entry of policy for lima, which is no peer")
    assert remarks(found) == []
    refused = drain(world.site("paris"), Scope(destinations=frozenset({"lima"})), 0)
    assert refused.reasons() == ["there is no session to lima"]


def test_drain_ignores_a_removed_client(world: World) -> None:
    paris = world.link("paris", "tokyo", initial_sync="log")
    for client in ("policy", "tenant"):
        world.transmit("paris", b"1", to=["tokyo"], client=client)
    paris.drain(timeout=20)
    paris.stop()
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, clients=["policy"])
    world.transmit("paris", b"2", to=["tokyo"])
    assert drain(world.site("paris"), Scope(), 20).drained
    told = {each["client"]: each["state"] for each in paris.status()["sessions"]}
    assert told == {"policy": SessionState.LOG_ENTRY_SYNC, "tenant": SessionState.INACTIVE}


def test_a_site_back_among_the_peers_gets_the_entries_it_missed(world: World) -> None:
    paris = world.link("paris", "tokyo", "lima", initial_sync="log")
    recorder = world.subscribe("lima")
    send(world, b"before")
    paris.drain(timeout=20)
    paris.stop()
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"})
    send(world, b"meanwhile")
    eventually(lambda: sessions_of(paris)["lima"]["state"] == SessionState.INACTIVE)
    paris.stop()
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo", "lima": "local:lima"})
    in_log_sync(paris, "lima")
    eventually(lambda: recorder.log("paris") == [b"before", b"meanwhile"])


def test_a_running_server_follows_a_changing_topology(world: World) -> None:
    begin(world, "tokyo", "lima")
    topology = Changing("tokyo")
    paris = world.server("paris", listen=[], topology=topology, initial_sync="log")
    recorder = world.subscribe("lima")
    send(world, b"first")
    in_log_sync(paris, "tokyo")
    # The application commits nothing from here on.
    topology.change("lima")
    eventually(lambda: recorder.log("paris") == [b"first"])
    eventually(lambda: sessions_of(paris)["tokyo"]["state"] == SessionState.INACTIVE)
    topology.change("lima", "tokyo")
    in_log_sync(paris, "lima", "tokyo")
    paris.drain(timeout=20)


@pytest.mark.nightly
def test_a_server_that_ends_with_its_old_peers_leaves_no_session_of_a_removed_site(world: World) -> None:
    sites = [f"sink{number}" for number in range(6)]
    begin(world, *sites)
    new, old = Changing(*sites), Changing(*sites)
    # No lease may expire on a busy machine.
    first = world.server("paris", listen=[], topology=new, initial_sync="log", lease_seconds=30.0)
    second = world.server("paris", listen=[], topology=old, initial_sync="log", lease_seconds=30.0)
    eventually(lambda: first.is_owner and second.server_status().ranges)
    # The ranges of a few sessions may all be those of one server, but not those of many.
    clients = [f"client{number}" for number in range(8)]
    for client in clients:
        world.transmit("paris", b"first", to=sites, client=client)

    def session_of(client: str, site: str) -> dict[str, Any]:
        [found] = [
            each for each in first.status()["sessions"] if (each["client"], each["destination"]) == (client, site)
        ]
        return found

    def working() -> list[tuple[str, str]]:
        found, name = first.status()["sessions"], second.server_status().name
        return [
            (each["client"], each["destination"])
            for each in found
            if (each["state"], each["server"]) == ("log-entry sync", name)
        ]

    client, removed = eventually(working)[0]
    new.change(*(site for site in sites if site != removed))
    eventually(lambda: removed not in known_peers(world))
    # The second server does not know that yet, and goes on; it may have made the session active again already.
    world.transmit("paris", b"second", to=sites, client=client)
    eventually(lambda: session_of(client, removed)["state"] == SessionState.LOG_ENTRY_SYNC)
    second.stop()
    eventually(lambda: session_of(client, removed)["state"] == SessionState.INACTIVE)
    first.drain(timeout=60)


def test_sites_of_a_topology_that_look_alike_are_warned_about_once_also_when_they_come_later(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if "look alike" in record.getMessage()]

    begin(world, "tokyo")
    topology = Changing("tokyo", "Paris")
    world.server("paris", listen=[], topology=topology)
    eventually(lambda: len(told()) == 1)
    topology.change("tokyo", "Paris", "Tokyo")
    eventually(lambda: len(told()) == 2)
    assert "'Paris' and 'paris'" in told()[0]
    assert "'Tokyo' and 'tokyo'" in told()[1]


class Moving(Changing):
    """A topology of one site whose endpoint a test can change."""

    def move(self, site: str, endpoint: str) -> None:
        self._now = StaticTopology({site: endpoint})
        self.version += 1


def test_a_working_session_follows_a_changed_endpoint(world: World) -> None:
    tokyo = world.server("tokyo", listen=["tcp://127.0.0.1:0", "tcp://127.0.0.1:0"])
    topology = Moving()
    topology.move("tokyo", tokyo.endpoints[0])
    paris = world.server("paris", listen=[], topology=topology, initial_sync="log")
    recorder = world.subscribe("tokyo")
    send(world, b"first", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"first"])
    assert connected(tokyo.endpoints[0])
    # The earlier endpoint goes on to work, so no fault makes the session connect again.
    topology.move("tokyo", tokyo.endpoints[1])
    eventually(lambda: connected(tokyo.endpoints[1]) and not connected(tokyo.endpoints[0]))
    in_log_sync(paris, "tokyo")
    send(world, b"second", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"first", b"second"])


def test_a_session_that_moves_into_the_process_wants_no_other_threads(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_connector, "THREADED", 0)
    # Each session counts as one with much work.
    monkeypatch.setattr(stream_threads, "BUSY", 0.0)
    tokyo = world.server("tokyo")
    topology = Moving()
    topology.move("tokyo", tokyo.endpoints[0])
    paris = world.server("paris", listen=[], topology=topology, initial_sync="log", stall_seconds=2.0)
    send(world, b"first", to=["tokyo"])
    in_log_sync(paris, "tokyo")
    topology.move("tokyo", "local:tokyo")
    eventually(lambda: not connected(tokyo.endpoints[0]))
    in_log_sync(paris, "tokyo")
    source = paris._roles.source
    assert source is not None
    (session,) = source.supervisor.sessions()
    threads, stream = source._sinks.stream_threads, session._connection.stream
    threads._most = 1
    # Work counts after a second.
    counted = eventually(lambda: threads._seen.get(session.owed))
    eventually(lambda: counted.is_busy)
    until = counted.at + 1
    eventually(lambda: counted.at > until)
    assert session._connection.stream is stream


def connected(endpoint: str) -> bool:
    """Return whether this process has a connection to *endpoint*."""
    port = int(endpoint.rpartition(":")[2])
    made = psutil.Process(os.getpid()).net_connections("tcp")
    return any(each.status == psutil.CONN_ESTABLISHED and each.raddr.port == port for each in made)


def test_a_forgotten_site_keeps_no_entries_and_gets_a_snapshot_if_it_comes_back(world: World) -> None:
    both = {"tokyo": "local:tokyo", "lima": "local:lima"}
    paris = world.link("paris", "tokyo", "lima", initial_sync="log", segment_bytes=1, trim_seconds=3600)
    recorder = world.subscribe("lima")
    send(world, b"before")
    paris.drain(timeout=20)
    paris.stop()
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, segment_bytes=1, trim_seconds=3600)
    eventually(lambda: sessions_of(paris)["lima"]["state"] == SessionState.INACTIVE)

    def trimmed() -> int:
        """Return the trimmed sequence after another entry for tokyo and a run of trim."""
        send(world, b"more", to=["tokyo"])
        paris.drain(timeout=20)
        paris.status()
        source = paris._source
        assert source is not None
        source.trim()
        return paris.site_status().log.trimmed_seq

    send(world, b"lost")
    held = [trimmed() for _ in range(3)]
    assert max(held) < 2
    done = forget(world.site("paris"), SiteId("lima"), None, force=False, ways=["outgoing"])
    assert done.links == [("policy", "lima")]
    eventually(lambda: trimmed() >= 2)
    paris.stop()
    world.provide("paris", Messages(lambda _context: [b"the whole state"]))
    paris = world.server("paris", listen=[], peers=both)
    eventually(lambda: recorder.snapshot("paris") == [b"the whole state"])
    in_log_sync(paris, "lima")
    assert released_in(world) == frozenset()


def released_in(world: World) -> frozenset[SessionKey]:
    with reading(world.site("paris")) as connection:
        return unclaimed(connection)
