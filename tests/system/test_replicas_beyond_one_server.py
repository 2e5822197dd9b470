"""A group of replicas behind producers, several servers of the source, and a source with a database on standbys."""

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from signal import SIGKILL
from typing import Any, Final

import pytest

from lr_server import LogReplicationServer
from lr_server.topology.rules import OwnSite
from lr_server.topology.table import add_peer, put_group
from lrq.cli.replica_actions import promote
from queues.database.peers import PeerRow
from queues.errors import StoreUnavailableError
from queues.wire import ingest_pb2 as pb
from tests.standbys import StandbyServers, standby_servers
from tests.system.raw_producer import RawProducer, message
from tests.system.test_replicas import TOKYO, A, B, paris_with, serving
from tests.system.world import CALM, CALM_POLL, Recorder, World, in_log_sync
from tests.waiting import eventually

CLIENTS: Final = tuple(f"client-{number}" for number in range(4))
_TABLE: Final[dict[str, Any]] = {**CALM, "topology": "table", "topology_poll_seconds": 0.25, "initial_sync": "log"}


def members(world: World) -> tuple[Recorder, Recorder]:
    """Start the servers of both members; return their subscribers."""
    for member in (A, B):
        world.server(member, listen=[])
    return world.subscribe(A), world.subscribe(B)


def led(*servers: LogReplicationServer) -> list[int]:
    """Return the number of sessions that each server runs."""
    return [len(list(server._source.supervisor.sessions())) if server._source else 0 for server in servers]


def test_a_message_of_a_producer_is_owed_to_every_member(world: World) -> None:
    first, second = members(world)
    paris = world.server(
        "paris", ingest=True, producers={"meter": {"destinations": ["tokyo"]}}, known_destinations_only=True,
        peers={member: f"local:{member}" for member in (A, B)}, replicas={"tokyo": [A, B]},
    )  # fmt: skip
    eventually(lambda: serving(world))
    with RawProducer(paris.endpoints[0]) as producer:
        for number, (to, is_refused) in enumerate((("tokyo", False), ("tokyo-a", True)), 1):
            messages = [message(b"for the group", to)]
            request = pb.ProduceRequest(client="policy", producer="meter", sequence=number, messages=messages)
            (reply,) = producer.send([request])
            assert reply.HasField("refusal") is is_refused
    paris.drain(timeout=20)
    eventually(lambda: first.log("paris") == second.log("paris") == [b"for the group"])


@pytest.mark.long
def test_servers_of_one_source_follow_a_changed_group_and_miss_no_entry(world: World) -> None:
    for member in (A, B):
        world.server(member, listen=[], **CALM)
        add_peer(world.site("paris"), PeerRow(member, f"local:{member}"), OwnSite("paris"))
    recorders = {
        member: [world.subscribe(member, Recorder(client), poll_interval=CALM_POLL) for client in CLIENTS]
        for member in (A, B)
    }
    put_group(world.site("paris"), TOKYO, [A])
    servers = [world.server("paris", listen=[], **_TABLE) for _ in range(3)]
    sent: dict[str, list[bytes]] = {client: [] for client in CLIENTS}

    def transmit(rounds: int) -> None:
        for number in range(rounds):
            for client in CLIENTS:
                sent[client].append(f"{client} {number}".encode())
                world.transmit("paris", sent[client][-1], to=["tokyo"], client=client)

    def arrived(*at: str) -> bool:
        return all(recorder.log("paris") == sent[recorder.client_name] for name in at for recorder in recorders[name])

    transmit(5)
    eventually(lambda: arrived(A))
    put_group(world.site("paris"), TOKYO, [A, B])
    transmit(5)
    eventually(lambda: arrived(A, B))
    # Each session of both members runs at one of the servers.
    eventually(lambda: sum(led(*servers)) == 2 * len(CLIENTS))
    owner = next(server for server in servers if server.is_owner)
    before = eventually(lambda: serving(world))
    owner.stop()
    servers.remove(owner)
    assert promote(world.site("paris"), B, timeout=30).now.generation > before.generation
    transmit(5)
    eventually(lambda: arrived(A, B))
    eventually(lambda: serving(world, A) == serving(world, B) == serving(world))
    assert serving(world).member == B  # type: ignore[union-attr]


@pytest.fixture
def source_on_standbys(world: World) -> Iterator[StandbyServers]:
    """Give three PostgreSQL servers with the database of the source."""
    with ExitStack() as stack:
        servers = stack.enter_context(standby_servers())
        world.engines["paris"] = servers.site("paris")
        stack.callback(world.engines["paris"].dispose)
        yield servers


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
@pytest.mark.postgresql
@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(300)
def test_a_promotion_is_kept_when_the_primary_of_the_source_dies(
    world: World, source_on_standbys: StandbyServers
) -> None:
    first, second = members(world)
    paris = paris_with(world, A, B, lease_seconds=4.0, stall_seconds=1.0, initial_sync="log")
    world.transmit("paris", b"before", to=["tokyo"])
    eventually(lambda: first.log("paris") == second.log("paris") == [b"before"])
    in_log_sync(paris, A, B)
    promoted = promote(world.site("paris"), B, timeout=60).now
    source_on_standbys.kill_primary(SIGKILL)

    def chosen() -> bool:
        with suppress(StoreUnavailableError):
            found = serving(world)
            return found is not None and found.member == B and found.generation >= promoted.generation
        return False

    eventually(chosen, timeout=60)
    world.transmit("paris", b"after", to=["tokyo"])
    eventually(lambda: first.log("paris") == second.log("paris") == [b"before", b"after"], timeout=60)
    eventually(lambda: serving(world, A) == serving(world, B) == serving(world), timeout=60)
    in_log_sync(paris, A, B)
    assert promote(world.site("paris"), A, timeout=60).now.generation > promoted.generation
