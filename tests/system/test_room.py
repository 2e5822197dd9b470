"""A subscriber that stands still: its sink takes entries up to `receive_bytes`, and the others wait at their source."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import func, select

from lr_server import LogReplicationServer
from queues.database.tables.receive import receive_blocks
from queues.receive.marks import ENTRY_BYTES
from queues.wire.replication_pb2 import Ack, Frame, NegotiateRequest, NegotiateResponse
from sink.port import Sink
from tests.received import COUNT
from tests.system.faulty import PassingSink
from tests.system.world import Messages, Recorder, World, sessions_of
from tests.waiting import eventually

BOUND = 20_000
PAYLOADS = [b"%06d" % number + b"." * 494 for number in range(200)]
#: An entry has less than 20 bytes beside its payload in an unpacked block.
ENTRY = len(PAYLOADS[0]) + 20 + ENTRY_BYTES
#: One tick a frame, so the room is passed by 10 entries at the most.
SMALL_FRAMES: dict[str, Any] = {"tick_rows": 10, "max_batch_bytes": 4_096}
WAITING = "waiting: the subscriber at tokyo does not keep up"


def linked(world: World, *sinks: str, **options: Any) -> LogReplicationServer:
    """Start paris as the source of tokyo, whose receive queues are bounded, and of further *sinks*."""
    world.server("tokyo", listen=[], receive_bytes=BOUND)
    for sink in sinks:
        world.server(sink, listen=[])
    return beginning(world, "tokyo", *sinks, **options)


def beginning(world: World, *sinks: str, **options: Any) -> LogReplicationServer:
    """Start paris as the source of *sinks*, whose logs begin with the oldest entry."""
    peers = {sink: f"local:{sink}" for sink in sinks}
    return world.server("paris", listen=[], peers=peers, **{"initial_sync": "log", **SMALL_FRAMES, **options})


def held_bytes(world: World, site: str) -> int:
    """Return the size of the log entries in the site's receive queue."""
    size = func.coalesce(func.sum(receive_blocks.c.size), 0)
    with world.site(site).connect() as connection:
        return int(connection.execute(select(size)).scalar_one())


def waits(paris: LogReplicationServer) -> Callable[[], bool]:
    """Return the fact that the session with tokyo waits for room."""
    return lambda: sessions_of(paris).get("tokyo", {}).get("reason") == WAITING


def transmit_each(world: World, payloads: list[bytes], *to: str) -> None:
    for payload in payloads:
        world.transmit("paris", payload, to=to)


@pytest.mark.parametrize("flow_control", ["cascade", "smart"])
def test_a_subscriber_that_stands_still_bounds_its_sink_and_holds_up_no_other_site(world: World, flow_control: str):
    paris = linked(world, "lima", flow_control=flow_control, feed_bytes=10_000)
    lima = world.subscribe("lima")
    transmit_each(world, PAYLOADS, "tokyo", "lima")
    eventually(waits(paris), timeout=60)
    assert BOUND <= held_bytes(world, "tokyo") <= BOUND + 10 * ENTRY
    eventually(lambda: lima.log("paris") == PAYLOADS, timeout=60)
    tokyo = world.subscribe("tokyo")
    eventually(lambda: len(tokyo.log("paris")) >= len(PAYLOADS), timeout=60)
    assert tokyo.log("paris") == PAYLOADS
    eventually(lambda: sessions_of(paris)["tokyo"]["reason"] == "live")
    eventually(lambda: held_bytes(world, "tokyo") == 0)


def test_a_listener_that_refuses_for_a_while_bounds_its_sink(world: World):
    paris = linked(world)
    tokyo, may_apply = Recorder(), []
    tokyo.obey = lambda *_: bool(may_apply)
    world.subscribe("tokyo", tokyo, backoff=0.05, max_backoff=0.1)
    transmit_each(world, PAYLOADS, "tokyo")
    eventually(waits(paris), timeout=60)
    assert held_bytes(world, "tokyo") <= BOUND + 10 * ENTRY
    may_apply.append(True)
    eventually(lambda: tokyo.log("paris") == PAYLOADS, timeout=60)


def test_a_transaction_larger_than_the_bound_arrives_whole(world: World):
    linked(world)
    tokyo = world.subscribe("tokyo")
    world.transmit("paris", b"first", to=["tokyo"])
    world.transmit("paris", *PAYLOADS, to=["tokyo"])
    world.transmit("paris", b"last", to=["tokyo"])
    eventually(lambda: tokyo.log("paris") == [b"first", *PAYLOADS, b"last"], timeout=60)


def test_a_snapshot_arrives_at_a_full_queue(world: World):
    paris = linked(world)
    transmit_each(world, PAYLOADS, "tokyo")
    eventually(waits(paris), timeout=60)
    world.provide("paris", Messages(lambda _context: PAYLOADS))
    world.request_snapshots("paris", "tokyo")
    eventually(lambda: [each["state"] for each in paris.status()["snapshots"]] == ["applied"], timeout=60)
    assert held_bytes(world, "tokyo") == 0
    world.transmit("paris", b"later", to=["tokyo"])
    tokyo = world.subscribe("tokyo")
    eventually(lambda: tokyo.log("paris")[-1:] == [b"later"], timeout=60)
    assert tokyo.snapshot("paris") == PAYLOADS


def test_a_restarted_source_waits_for_room_at_once(world: World):
    paris = linked(world)
    transmit_each(world, PAYLOADS, "tokyo")
    eventually(waits(paris), timeout=60)
    paris.stop()
    before = held_bytes(world, "tokyo")
    again = beginning(world, "tokyo")
    eventually(waits(again), timeout=60)
    assert held_bytes(world, "tokyo") == before
    tokyo = world.subscribe("tokyo")
    eventually(lambda: tokyo.log("paris") == PAYLOADS, timeout=60)


class WithoutRoom(PassingSink):
    """Answers as a sink of the version before, which tells no room."""

    def negotiate(self, request: NegotiateRequest) -> NegotiateResponse:
        answer = self._sink.negotiate(request)
        answer.ClearField("room")
        return answer

    def replicate(self, frames: Iterator[Frame]) -> Iterator[Ack]:
        for ack in self._sink.replicate(frames):
            ack.ClearField("room")
            yield ack


def test_a_sink_that_tells_no_room_gets_everything(world: World):
    sink: Sink = world.behind("tokyo", WithoutRoom)
    assert sink is not None
    paris = beginning(world, "tokyo")
    transmit_each(world, PAYLOADS, "tokyo")
    eventually(lambda: world.execute("tokyo", COUNT) == [(len(PAYLOADS),)], timeout=60)
    eventually(lambda: sessions_of(paris)["tokyo"]["reason"] == "live")
