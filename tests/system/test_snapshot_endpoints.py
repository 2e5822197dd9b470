"""A peer may name another endpoint for snapshots: they take that way, and the log takes its own."""

import pytest

from lr_server import LogReplicationServer
from queues.states import SessionState
from tests.system.test_servers_of_a_sink import streams
from tests.system.world import Messages, World, in_log_sync, sessions_of
from tests.waiting import eventually

ROWS = [b"row %d" % number for number in range(40)]


def source(world: World, log: LogReplicationServer, snapshots: str, **options: object) -> LogReplicationServer:
    """Start the server of paris, which sends the log and the snapshots of tokyo to two endpoints."""
    peers = {"tokyo": log.endpoints[0]}
    return world.server("paris", listen=[], peers=peers, snapshot_endpoints={"tokyo": snapshots}, **options)


def test_snapshots_take_their_own_endpoint_and_the_log_its_own(world: World) -> None:
    for_log, for_snapshots = world.server("tokyo"), world.server("tokyo")
    recorder = world.subscribe("tokyo")
    world.provide("paris", Messages(lambda _context: ROWS), block_rows=4)
    paris = source(world, for_log, for_snapshots.endpoints[0], max_batch_bytes=1)
    world.transmit("paris", b"in the snapshot", to=["tokyo"])
    eventually(lambda: recorder.snapshot("paris") == ROWS)
    in_log_sync(paris, "tokyo")
    assert streams(for_snapshots) == 1
    # From here on, the log needs the other server only.
    eventually(lambda: used(paris) == for_log.endpoints[0])
    for_snapshots.stop()
    world.transmit("paris", b"log", to=["tokyo"])
    eventually(lambda: recorder.log("paris")[-1:] == [b"log"])
    assert recorder.kinds("paris")[:3] == ["start 1", f"snapshot {len(ROWS)}", "complete 1"]


def test_a_snapshot_on_order_goes_aside_and_comes_back_without_loss(world: World) -> None:
    for_log, for_snapshots = world.server("tokyo"), world.server("tokyo")
    recorder = world.subscribe("tokyo")
    paris = source(world, for_log, for_snapshots.endpoints[0], initial_sync="log", max_batch_bytes=1)
    world.provide("paris", Messages(lambda _context: ROWS), block_rows=4)
    sent = [b"%d" % number for number in range(30)]
    for number, payload in enumerate(sent):
        world.transmit("paris", payload, to=["tokyo"])
        if number % 10 == 5:
            eventually(lambda number=number: recorder.log("paris")[-1:] == [sent[number]])
            before = recorder.snapshot("paris")
            world.request_snapshots("paris", "tokyo")
            eventually(lambda before=before: recorder.snapshot("paris") == before + ROWS)
    paris.drain(timeout=30)
    eventually(lambda: recorder.log("paris") == sent)
    assert recorder.snapshot("paris") == ROWS * 3


def test_a_client_without_snapshots_does_not_wait_for_that_endpoint(world: World) -> None:
    """The endpoint for snapshots cannot be reached: the log of another client goes on, and the snapshot waits."""
    tokyo = world.server("tokyo")
    recorder, other = world.subscribe("tokyo"), world.subscribe("tokyo", recorder_of("tenant"))
    world.provide("paris", Messages(lambda _context: ROWS))
    paris = source(world, tokyo, "ipc:///nowhere/lrq.sock")
    world.transmit("paris", b"1", to=["tokyo"])
    world.transmit("paris", b"2", to=["tokyo"], client="tenant")
    eventually(lambda: other.log("paris") == [b"2"])
    words = "ipc:///nowhere/lrq.sock cannot be reached"
    eventually(lambda: words in "".join(each["reason"] for each in paris.status()["sessions"]))
    assert recorder.snapshot("paris") == []


def test_the_end_of_the_server_for_snapshots_ends_no_snapshot(world: World) -> None:
    provider = Messages(lambda _context: ROWS)
    for_log, first = world.server("tokyo"), world.server("tokyo")
    endpoint = first.endpoints[0]
    recorder = world.subscribe("tokyo")
    world.provide("paris", provider, block_rows=1)
    paris = source(world, for_log, endpoint, max_batch_bytes=1, window_frames=1)
    world.transmit("paris", b"in the snapshot", to=["tokyo"])
    # The thread of the test may be late: then the snapshot is over.
    under_way = (SessionState.SNAPSHOT_SYNC, SessionState.WAIT_FOR_APPLY, SessionState.LOG_ENTRY_SYNC)
    eventually(lambda: sessions_of(paris).get("tokyo", {}).get("state") in under_way)
    first.stop()
    world.server("tokyo", listen=[endpoint])
    eventually(lambda: recorder.snapshot("paris") == ROWS)
    in_log_sync(paris, "tokyo")
    assert provider.served == ["tokyo"]


@pytest.mark.parametrize("same", [True, False])
def test_without_another_endpoint_snapshots_go_to_that_of_the_log(world: World, same: bool) -> None:
    tokyo = world.server("tokyo")
    recorder = world.subscribe("tokyo")
    world.provide("paris", Messages(lambda _context: ROWS))
    options = {"snapshot_endpoints": {"tokyo": tokyo.endpoints[0]}} if same else {}
    paris = world.server("paris", listen=[], peers={"tokyo": tokyo.endpoints[0]}, **options)
    world.transmit("paris", b"in the snapshot", to=["tokyo"])
    eventually(lambda: recorder.snapshot("paris") == ROWS)
    in_log_sync(paris, "tokyo")
    assert used(paris) == tokyo.endpoints[0]


def used(server: LogReplicationServer) -> str:
    """Return the endpoint that the only session uses."""
    made = server._source
    assert made is not None
    (route,) = made._sinks.routes._routes.values()
    return route.endpoints[route.choice.at]


def recorder_of(client: str):
    from tests.system.world import Recorder

    return Recorder(client)
