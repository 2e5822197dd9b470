"""Three servers of a site in status, top, doctor and metrics: each shows the part of each server."""

import json
from typing import Any

import pytest

from lr_server import LogReplicationServer
from tests.lrq.cli.command import Command, lrq_process
from tests.system.test_metrics import ANYWHERE, address_of, fetched
from tests.system.world import World
from tests.waiting import eventually

pytestmark = pytest.mark.long

SINKS = ("lima", "tokyo")
CLIENTS = tuple(f"client-{number}" for number in range(6))
SHARES = [21, 21, 22]
DELAYS = "lrq_session_commit_to_sink_seconds_count"


@pytest.fixture
def lrq(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("COLUMNS", "200")
    return Command(capsys)


@pytest.fixture
def three(world: World) -> list[LogReplicationServer]:
    """Give three servers of paris that share 64 ranges, with twelve sessions."""
    for sink in SINKS:
        world.server(sink, listen=[])
    peers = {sink: f"local:{sink}" for sink in SINKS}
    servers = [world.server("paris", peers=peers, initial_sync="log", metrics=ANYWHERE) for _ in range(3)]
    eventually(lambda: shares(servers) == SHARES)
    for client in CLIENTS:
        world.transmit("paris", b"an entry", to=SINKS, client=client)
    eventually(lambda: sum(map(len, running(servers))) == 12)
    return servers


def shares(servers: list[LogReplicationServer]) -> list[int]:
    return sorted(server.server_status().ranges for server in servers)


def running(servers: list[LogReplicationServer]) -> list[set[tuple[str, str]]]:
    """Return the sessions that each server runs."""
    sources = [server._source for server in servers]
    return [{tuple(each.owed) for each in source.supervisor.sessions()} if source else set() for source in sources]


def url(world: World) -> str:
    return world.site("paris").url.render_as_string(hide_password=False)


def test_the_status_names_the_leader_of_each_session(world: World, three: list, lrq: Command) -> None:
    def settled() -> Any:
        """Return the status; None while a server has lost its share, as on a busy machine for a moment."""
        status = lrq("status", "--json", "--database", url(world)).json
        shares = sorted(each["ranges"] for each in status["servers"] if each["alive"])
        return status if shares == SHARES and all(each["server"] for each in status["sessions"]) else None

    found = eventually(settled)
    (sequencer,) = [each["name"] for each in found["servers"] if each["sequencer"]]
    assert [server._roles.name for server in three if server.is_owner] == [sequencer]
    led = {server._roles.name: sessions for server, sessions in zip(three, running(three), strict=True)}
    for session in found["sessions"]:
        assert (session["client"], session["destination"]) in led[session["server"]]
        assert session["generation"] > 0
    endpoints = {each["name"]: tuple(each["endpoints"]) for each in found["servers"]}
    assert endpoints == {server._roles.name: server.endpoints for server in three}


@pytest.mark.nightly
@pytest.mark.parametrize("command", ["status", "top"])
def test_a_table_shows_the_share_of_each_server(world: World, three: list, lrq: Command, command: str) -> None:
    assert len(three) == 3

    def led() -> list[str]:
        return [line for line in lrq(command, "--database", url(world)).out.splitlines() if "leads" in line]

    def shown() -> tuple[list[int], int]:
        lines = led()
        shares = sorted(int(line.partition("leads ")[2].split()[0]) for line in lines)
        return shares, sum("takes the ticks" in line for line in lines)

    # On a busy machine a server may lose its share for a moment.
    eventually(lambda: shown() == (SHARES, 1))


@pytest.mark.nightly
def test_the_doctor_tells_the_share_of_each_server(world: World, three: list) -> None:
    assert len(three) == 3

    def told() -> str:
        done = lrq_process("doctor", "--database", url(world), "--json")
        assert done.stdout, done
        (finding,) = [each for each in json.loads(done.stdout)["findings"] if "servers share the work" in str(each)]
        return str(finding)

    # On a busy machine a server may lose its share for a moment.
    words = eventually(lambda: [words for words in [told()] if words.count("leads 22 ranges") == 1])[0]
    assert "3 servers share the work" in words
    assert words.count("leads 21 ranges") == 2


def test_the_metrics_of_each_server_have_its_own_share_and_the_sequencer_tells_the_site(
    world: World, three: list[LogReplicationServer]
) -> None:
    def shown() -> bool:
        found = [fetched(address_of(server)) for server in three]
        return (
            [each.get("lrq_servers") for each in found] == [3 if each["lrq_owner"] else None for each in found]
            and sum("lrq_session_acked_seq" in each for each in found) == 1
            and sorted(each["lrq_ranges"] for each in found) == SHARES
            and sorted(each["lrq_owner"] for each in found) == [0, 0, 1]
        )

    # On a busy machine a server may lose its share for a moment.
    eventually(shown)
    eventually(lambda: sum(fetched(address_of(each)).get(DELAYS, 0) for each in three) == 12)


def test_a_server_that_stops_leaves_all_views_and_its_share_goes_to_the_others(
    world: World, three: list[LogReplicationServer], lrq: Command
) -> None:
    (stopped,) = [server for server in three if server.is_owner]
    stopped.stop()
    left = [server for server in three if server is not stopped]
    eventually(lambda: shares(left) == [32, 32] and sum(server.is_owner for server in left) == 1)

    def gone() -> dict[str, int]:
        found = lrq("status", "--json", "--database", url(world)).json
        return {each["name"]: each["ranges"] for each in found["servers"] if not each["alive"]}

    eventually(lambda: gone() == {stopped._roles.name: 0})
    eventually(lambda: [count for each in left if (count := fetched(address_of(each)).get("lrq_servers"))] == [2])
