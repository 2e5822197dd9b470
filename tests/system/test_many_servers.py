"""Several servers of one source share its sessions, and one of them takes the ticks."""

from collections.abc import Iterable, Sequence

import pytest

from lr_server import LogReplicationServer
from queues.receive.fences import fences
from tests.system.world import CALM, CALM_POLL, Messages, Recorder, World
from tests.waiting import eventually

SINKS = ("lima", "rome", "tokyo")
CLIENTS = tuple(f"client-{number}" for number in range(8))

pytestmark = [pytest.mark.long]


class Site:
    """Site `paris` with several servers, and 24 sessions to three sinks that record their entries."""

    def __init__(self, world: World, count: int) -> None:
        self.world = world
        for sink in SINKS:
            world.server(sink, listen=[], **CALM)
        self.recorders = {
            sink: [world.subscribe(sink, Recorder(client), poll_interval=CALM_POLL) for client in CLIENTS]
            for sink in SINKS
        }
        self.sent: dict[str, list[bytes]] = {client: [] for client in CLIENTS}
        self.servers = [self.begin() for _ in range(count)]

    def begin(self) -> LogReplicationServer:
        peers = {sink: f"local:{sink}" for sink in SINKS}
        return self.world.server("paris", listen=[], peers=peers, initial_sync="log", **CALM)

    def transmit(self, rounds: Iterable[int]) -> None:
        for number in rounds:
            for client in CLIENTS:
                payload = f"{client} {number}".encode()
                self.world.transmit("paris", payload, to=SINKS, client=client)
                self.sent[client].append(payload)

    def delivered(self) -> bool:
        return all(
            recorder.log("paris") == self.sent[recorder.client_name]
            for recorders in self.recorders.values()
            for recorder in recorders
        )

    def led(self) -> list[set[tuple[str, str]]]:
        """Return the sessions that each server runs."""
        sources = [server._source for server in self.servers]
        return [{session.owed for session in source.supervisor.sessions()} if source else set() for source in sources]

    def sequencers(self) -> Sequence[bool]:
        return [server.is_owner for server in self.servers]

    def generations(self) -> dict[tuple[str, str], int]:
        """Return the generation that each sink has stored of each session."""
        found = {}
        for sink in SINKS:
            with self.world.site(sink).connect() as connection:
                found |= {(fence.client, sink): fence.generation for fence in fences(connection)}
        return found


def is_shared(led: Sequence[set[tuple[str, str]]], servers: int) -> bool:
    """Return whether each of 24 sessions runs at one server, and each server runs some."""
    return sum(map(len, led)) == 24 and len(set().union(*led)) == 24 and sum(map(bool, led)) == servers


@pytest.mark.timeout(300)
@pytest.mark.parametrize("servers", [2, 3])
def test_servers_share_the_sessions_and_deliver_every_entry_once_in_order(world: World, servers: int) -> None:
    site = Site(world, servers)
    site.transmit(range(5))
    eventually(lambda: is_shared(site.led(), servers))
    eventually(lambda: sorted(site.sequencers()) == [False] * (servers - 1) + [True])
    site.transmit(range(5, 15))
    eventually(site.delivered)
    for server in site.servers:
        server.drain(timeout=20)


def test_the_next_servers_take_over_at_once_from_one_that_stops(world: World) -> None:
    site = Site(world, 3)
    site.transmit(range(3))
    eventually(lambda: is_shared(site.led(), 3))
    eventually(site.delivered)
    before = site.generations()
    for left in (2, 1):
        stopped = site.servers.pop(site.sequencers().index(True))
        stopped.stop()
        site.transmit(range(3, 6))
        eventually(lambda left=left: is_shared(site.led(), left))
        eventually(lambda: sum(site.sequencers()) == 1)
        eventually(site.delivered)
    after = site.generations()
    assert all(after[session] >= before[session] for session in before)
    assert after != before


def test_a_server_that_comes_gets_its_share(world: World) -> None:
    site = Site(world, 1)
    site.transmit(range(2))
    eventually(site.delivered)
    site.servers.append(site.begin())
    eventually(lambda: is_shared(site.led(), 2))
    site.transmit(range(2, 6))
    eventually(site.delivered)
    assert site.sequencers() == [True, False]


def test_the_sessions_go_on_while_the_sequencer_moves(world: World) -> None:
    site = Site(world, 2)
    site.transmit(range(2))
    eventually(lambda: is_shared(site.led(), 2))
    first, second = site.servers
    kept = second._source
    running = {session.owed: session for session in kept.supervisor.sessions()}
    first._roles.ownership.give_up(RuntimeError("the test wants it"))
    eventually(lambda: site.sequencers() == [False, True])
    site.transmit(range(2, 6))
    eventually(site.delivered)
    assert second._source is kept
    assert {session.owed: session for session in kept.supervisor.sessions()} == running
    assert is_shared(site.led(), 2)


def test_snapshots_of_one_request_reach_the_sites_of_several_servers(world: World) -> None:
    site = Site(world, 2)
    site.transmit(range(2))
    eventually(lambda: is_shared(site.led(), 2))
    eventually(site.delivered)
    for client in CLIENTS[:3]:
        world.provide("paris", Messages(lambda _: [b"state 1", b"state 2"]), client=client)
        world.request_snapshots("paris", client=client)
    asked = [each for recorders in site.recorders.values() for each in recorders if each.client_name in CLIENTS[:3]]
    eventually(lambda: all(each.snapshot("paris") == [b"state 1", b"state 2"] for each in asked))
    site.transmit(range(2, 4))
    eventually(site.delivered)
    assert all(each.kinds("paris")[1:4] == ["start 1", "snapshot 2", "complete 1"] for each in asked)
