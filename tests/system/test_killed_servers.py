"""Real server processes of one source: killed, or stopped and continued, while applications write."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from discovery.status import read_status
from queues.receive.fences import fences
from tests.faults.standing_still import standing_still
from tests.lrq.cli.command import Served, served
from tests.system.world import CALM, CALM_POLL, Recorder, World
from tests.waiting import eventually

SINKS = ("lima", "rome", "tokyo")
CLIENTS = tuple(f"client-{number}" for number in range(8))
#: The most time until other servers lead the ranges of one that does not renew them, in seconds.
LEASE = 3.0
WAIT = 60.0

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(300)]


class Site:
    """Site `paris` with 24 sessions to three sinks in this process; its servers are processes."""

    def __init__(self, world: World, stack: ExitStack, folder: Path) -> None:
        self.world = world
        self.sent: dict[str, list[bytes]] = {client: [] for client in CLIENTS}
        self.endpoints = {sink: world.server(sink, **CALM).endpoints[0] for sink in SINKS}
        self.recorders = [
            world.subscribe(sink, Recorder(client), poll_interval=CALM_POLL) for sink in SINKS for client in CLIENTS
        ]
        self.paris = world.site("paris")
        self.told: list[dict[tuple[str, str], int]] = []
        folder.mkdir()
        config = folder / "paris.toml"
        options = {**CALM, "lease_seconds": LEASE, "initial_sync": "log"}
        lines = [
            f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value}" for name, value in options.items()
        ]
        peers = [f'{sink} = "{endpoint}"' for sink, endpoint in self.endpoints.items()]
        config.write_text("\n".join([*lines, "[peers]", *peers, ""]))
        here = ("--database", self.paris.url.render_as_string(hide_password=False), "--site", "paris")
        self.servers = [
            stack.enter_context(served("--config", str(config), *here, folder=folder / str(number)))
            for number in range(3)
        ]

    def transmit(self, count: int) -> None:
        for _ in range(count):
            for client, sent in self.sent.items():
                payload = f"{client} {len(sent)}".encode()
                self.world.transmit("paris", payload, to=SINKS, client=client)
                sent.append(payload)

    def delivered(self) -> bool:
        return all(each.log("paris") == self.sent[each.client_name] for each in self.recorders)

    def leaders(self) -> set[str]:
        """Return the servers that lead the 24 sessions, without an empty name; none until all sessions are there."""
        sessions = read_status(self.paris).sessions
        return {session.server for session in sessions} - {""} if len(sessions) == 24 else set()

    def sequencer(self) -> str:
        return next((each.name for each in read_status(self.paris).living if each.sequencer), "")

    def generations(self) -> dict[tuple[str, str], int]:
        """Return the generation that each sink has stored of each session."""
        found: dict[tuple[str, str], int] = {}
        for sink in SINKS:
            with self.world.site(sink).connect() as connection:
                found |= {(fence.client, sink): fence.generation for fence in fences(connection)}
        return found

    def note_generations(self) -> None:
        """Note all generations; none may be below the last one."""
        found = self.generations()
        for before in self.told[-1:]:
            assert all(found[session] >= generation for session, generation in before.items())
        self.told.append(found)

    def has_other_leaders_since(self, before: dict[tuple[str, str], int]) -> None:
        """Wait until a sink has heard of another leader than those of *before*."""
        eventually(lambda: self.generations() != before, timeout=WAIT, interval=0.1)

    def by_role(self, role: str) -> Served:
        sequencer = eventually(self.sequencer)
        return next(each for each in self.servers if (each.facts["name"] == sequencer) == (role == "sequencer"))

    def goes_on(self, *without: Served) -> None:
        """Check that all other servers lead all sessions, take the ticks and deliver everything."""
        gone = {each.facts["name"] for each in without}
        left = {each.facts["name"] for each in self.servers} - gone
        self.transmit(2)
        eventually(self.delivered, timeout=WAIT)
        eventually(lambda: self.leaders() == left, timeout=WAIT, interval=0.1)
        assert self.sequencer() in left
        self.note_generations()


@pytest.fixture
def shared(world: World, tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        site = Site(world, stack, tmp_path / "servers")
        site.transmit(1)
        site.goes_on()
        yield site


@pytest.mark.parametrize("role", ["sequencer", "follower"])
def test_the_sessions_of_a_killed_server_go_on_at_the_others(shared: Site, role: str) -> None:
    victim = shared.by_role(role)
    shared.transmit(2)
    victim.process.kill()
    shared.goes_on(victim)
    shared.has_other_leaders_since(shared.told[-2])


@pytest.mark.parametrize("role", ["sequencer", "follower"])
def test_the_sessions_of_a_stopped_server_go_on_and_it_gets_its_share_when_it_is_back(shared: Site, role: str) -> None:
    victim = shared.by_role(role)
    shared.transmit(2)
    with standing_still(victim.process.pid, shared.paris.url.render_as_string(hide_password=False)):
        shared.goes_on(victim)
    shared.goes_on()
    shared.has_other_leaders_since(shared.told[1])
