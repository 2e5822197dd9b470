"""A snapshot goes through a connection of its own, so the entries of other clients do not wait behind it."""

import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from lr_server import LogReplicationServer
from queues import send_snapshot
from queues.names import ClientName
from queues.states import SessionState
from queues.wire.replication_pb2 import NegotiateRequest, NegotiateResponse
from sink.transport import channels, service
from sink.transport.channels import Lane
from tests.lrq.cli.command import served
from tests.system.faulty import PassingSink
from tests.system.relay import Relay
from tests.system.world import Messages, Recorder, World, in_log_sync, sessions_of
from tests.waiting import eventually

ROWS = [random.Random(number).randbytes(2_000) for number in range(60)]
#: The lane of snapshots is held after so many bytes: some blocks have passed, and most have not.
SOME = 20_000
#: The connections of a source in the order of their begin.
LOG, SNAPSHOTS = 0, 1


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a lane stand still for as long as a slow machine needs. Usually a connection ends after 5 seconds."""
    minutes = channels._noticing_silence(600_000, 600_000)
    monkeypatch.setattr(channels, "OPTIONS", (*channels._COMMON, *minutes))
    monkeypatch.setattr(service, "_OPTIONS", tuple((dict(service._OPTIONS) | dict(minutes)).items()))


@pytest.fixture
def tokyo(world: World) -> LogReplicationServer:
    return world.server("tokyo")


@pytest.fixture
def relay(tokyo: LogReplicationServer) -> Iterator[Relay]:
    with closing(Relay(tokyo.endpoints[0])) as relay:
        yield relay


@pytest.fixture
def recorder(world: World) -> Recorder:
    return world.subscribe("tokyo")


@pytest.fixture
def tenant(world: World) -> Recorder:
    return world.subscribe("tokyo", Recorder("tenant"))


@pytest.fixture
def provider(world: World) -> Messages:
    made = Messages(lambda _context: ROWS)
    world.provide("paris", made, block_rows=1)
    return made


@pytest.fixture
def paris(world: World, relay: Relay, recorder: Recorder, tenant: Recorder, provider: Messages) -> LogReplicationServer:
    """Serve the site paris in the middle of a snapshot of `policy`, whose lane is held; `tenant` replicates its log."""
    paris = world.server("paris", listen=[], peers={"tokyo": relay.endpoint}, max_batch_bytes=1)
    world.transmit("paris", b"0", to=["tokyo"], client="tenant")
    eventually(lambda: tenant.log("paris") == [b"0"])
    begin_snapshot(world, relay)
    return paris


def begin_snapshot(world: World, relay: Relay) -> None:
    """Let the snapshot of `policy` begin, and wait until its lane is held; leave two connections, LOG and SNAPSHOTS."""
    relay.others_held_after = SOME
    world.transmit("paris", b"in the snapshot", to=["tokyo"])
    held = eventually(lambda: next((joined for joined in relay.connections if joined.is_holding), None))
    relay.others_held_after = None
    # On a busy machine the first connection may have been given up and made again.
    log = eventually(lambda: next((joined for joined in relay.connections if joined.is_open and joined != held), None))
    log.go_on()
    relay.connections[:] = [log, held]


def transmit(world: World, tenant: Recorder, count: int = 8) -> None:
    """Transmit entries of `tenant`, and wait until all its entries have arrived, each once."""
    sent = [b"%d" % number for number in range(len(tenant.log("paris")) + count)]
    for payload in sent[-count:]:
        world.transmit("paris", payload, to=["tokyo"], client="tenant")
    eventually(lambda: len(tenant.log("paris")) >= len(sent))
    assert tenant.log("paris") == sent


def complete(paris: LogReplicationServer, world: World, recorder: Recorder, provider: Messages) -> None:
    """Wait for the end of the snapshot, which was built and applied once, and for the log after it."""
    eventually(lambda: "complete 1" in recorder.kinds("paris"))
    world.transmit("paris", b"after", to=["tokyo"])
    eventually(lambda: recorder.log("paris")[-1:] == [b"after"])
    assert recorder.snapshot("paris") == ROWS
    assert recorder.kinds("paris")[:3] == ["start 1", f"snapshot {len(ROWS)}", "complete 1"]
    assert provider.served == ["tokyo"]


def stream_of(client: str) -> list[int | None]:
    """Return the threads of a client's streams: a new connection has another thread."""
    return [thread.ident for thread in threading.enumerate() if thread.name == f"lrq-stream-{client}-tokyo"]


def users(relay: Relay, lane: Lane) -> int:
    """Return the number of sessions on one lane to the relay."""
    address = relay.endpoint.removeprefix("tcp://")
    return sum(shared.users for key, shared in channels._channels.items() if (key.address, key.lane) == (address, lane))


def test_entries_of_other_clients_pass_a_snapshot_that_stands_still(
    world: World, relay: Relay, paris: LogReplicationServer, recorder: Recorder, tenant: Recorder, provider: Messages
) -> None:
    transmit(world, tenant)
    assert recorder.snapshot("paris") == []
    assert relay.is_holding(SNAPSHOTS)
    relay.connections[SNAPSHOTS].go_on()
    complete(paris, world, recorder, provider)
    # The session is back on the first connection, and the other one is closed.
    eventually(lambda: relay.open_connections() == 1)
    assert relay.connections[LOG].is_open
    assert len(relay.connections) == 2


def test_the_loss_of_the_snapshots_connection_does_not_touch_the_log(
    world: World, relay: Relay, paris: LogReplicationServer, recorder: Recorder, tenant: Recorder, provider: Messages
) -> None:
    before = stream_of("tenant")
    relay.connections[SNAPSHOTS].cut()
    transmit(world, tenant)
    complete(paris, world, recorder, provider)
    assert stream_of("tenant") == before


def test_the_loss_of_the_logs_connection_does_not_touch_the_snapshot(
    world: World, relay: Relay, paris: LogReplicationServer, recorder: Recorder, tenant: Recorder, provider: Messages
) -> None:
    before = stream_of("policy")
    relay.connections[LOG].cut()
    transmit(world, tenant)
    assert stream_of("policy") == before
    assert relay.is_holding(SNAPSHOTS)
    relay.connections[SNAPSHOTS].go_on()
    complete(paris, world, recorder, provider)


def test_connections_that_are_lost_again_and_again_cost_only_time(
    world: World,
    relay: Relay,
    paris: LogReplicationServer,
    recorder: Recorder,
    tenant: Recorder,
    provider: Messages,
    chance: random.Random,
) -> None:
    for _ in range(3):
        # A few blocks pass, and then this connection is lost too.
        relay.held_after[len(relay.connections)] = SOME // 2 + chance.randrange(SOME // 2)
        held = [joined for joined in relay.connections if joined.is_holding]
        chance.choice([held[0], relay.connections[LOG]]).cut()
        transmit(world, tenant, 3)
        eventually(lambda: any(joined.is_holding for joined in relay.connections))
    relay.held_after.clear()
    for joined in relay.connections:
        joined.go_on()
    complete(paris, world, recorder, provider)
    transmit(world, tenant)


def test_the_snapshots_of_all_clients_share_one_connection(
    world: World, relay: Relay, paris: LogReplicationServer, recorder: Recorder, provider: Messages
) -> None:
    others = [f"other{number}" for number in range(2)]
    for client in others:
        world.provide("paris", Messages(lambda _context: ROWS), client, block_rows=1)
        world.transmit("paris", b"1", to=["tokyo"], client=client)
    eventually(lambda: users(relay, Lane.SNAPSHOTS) == 3)
    assert users(relay, Lane.LOG) == 1
    # On a busy machine a connection may be given up and made again.
    eventually(lambda: relay.open_connections() == 2)
    for joined in relay.connections:
        joined.go_on()
    complete(paris, world, recorder, provider)
    eventually(lambda: sum(each["state"] == SessionState.LOG_ENTRY_SYNC for each in paris.status()["sessions"]) == 4)
    assert relay.open_connections() <= 2


def test_the_log_goes_on_when_a_snapshot_without_a_way_is_cancelled(world: World, tokyo: LogReplicationServer) -> None:
    recorder = world.subscribe("tokyo")
    peers, nowhere = {"tokyo": tokyo.endpoints[0]}, {"tokyo": "ipc:///nowhere/lrq.sock"}
    paris = world.server("paris", listen=[], peers=peers, snapshot_endpoints=nowhere, initial_sync="log")
    world.provide("paris", Messages(lambda _context: ROWS))
    world.transmit("paris", b"1", to=["tokyo"])
    in_log_sync(paris, "tokyo")
    world.request_snapshots("paris", "tokyo")
    eventually(lambda: "/nowhere/lrq.sock cannot be reached" in sessions_of(paris)["tokyo"]["reason"])
    world.transmit("paris", b"2", to=["tokyo"])
    with world.site("paris").begin() as connection:
        assert send_snapshot.cancel(connection, ClientName("policy")) == 1
    eventually(lambda: recorder.log("paris") == [b"1", b"2"])
    assert recorder.snapshot("paris") == []


class Asked(PassingSink):
    """Counts the negotiations."""

    negotiations = 0

    def negotiate(self, request: NegotiateRequest) -> NegotiateResponse:
        self.negotiations += 1
        return super().negotiate(request)


def test_a_session_within_one_process_has_no_lanes_and_negotiates_once(world: World) -> None:
    asked = world.behind("tokyo", Asked)
    recorder = world.subscribe("tokyo")
    world.provide("paris", Messages(lambda _context: ROWS))
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"})
    world.transmit("paris", b"in the snapshot", to=["tokyo"])
    eventually(lambda: recorder.snapshot("paris") == ROWS)
    in_log_sync(paris, "tokyo")
    assert asked.negotiations == 1


@pytest.mark.long
@pytest.mark.processes
def test_a_source_killed_in_the_middle_of_a_snapshot_sends_the_rest_and_the_log(
    world: World, relay: Relay, recorder: Recorder, tenant: Recorder, provider: Messages, tmp_path: Path
) -> None:
    url = world.site("paris").url.render_as_string(hide_password=False)
    config = tmp_path / "paris.toml"
    config.write_text(
        "max_batch_bytes = 1\nlease_seconds = 1.0\nsnapshot_poll_seconds = 0.05\nretry_cap_seconds = 0.5\n"
        f'[peers]\ntokyo = "{relay.endpoint}"\n'
    )
    options = ("--config", str(config), "--database", url, "--site", "paris")
    world.transmit("paris", b"0", to=["tokyo"], client="tenant")
    with ExitStack() as stack:
        first = stack.enter_context(served(*options, folder=tmp_path / "first"))
        eventually(lambda: tenant.log("paris") == [b"0"])
        begin_snapshot(world, relay)
        transmit(world, tenant)
        first.process.kill()
        first.process.wait(30)
        relay.connections[SNAPSHOTS].cut()
        stack.enter_context(served(*options, folder=tmp_path / "second"))
        transmit(world, tenant)
        complete_by_process(world, recorder, provider)


def complete_by_process(world: World, recorder: Recorder, provider: Messages) -> None:
    eventually(lambda: "complete 1" in recorder.kinds("paris"), timeout=30)
    world.transmit("paris", b"after", to=["tokyo"])
    eventually(lambda: recorder.log("paris")[-1:] == [b"after"])
    assert recorder.snapshot("paris") == ROWS
    assert provider.served == ["tokyo"]


def test_the_floor_of_the_pace_is_that_of_the_settings(world: World) -> None:
    source = world.server("paris", listen=[], snapshot_floor_bytes=1_000)._source
    assert source is not None
    # With live entries, but none beside a snapshot yet, the pace is the floor.
    source._lane.note_delays("tokyo", [0.005] * 8)
    source._lane.pause()
    assert source._lane._pace.rate == 1_000
