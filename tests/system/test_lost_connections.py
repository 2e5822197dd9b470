"""Connections that are lost mid-stream: no entry is lost or doubled, and the stream resumes where it stopped."""

import random

import pytest

from tests.system.faulty import UnreliableSink
from tests.system.world import Messages, World
from tests.waiting import eventually


@pytest.mark.timeout(240)
def test_repeated_connection_losses_cost_only_time(world: World, chance: random.Random) -> None:
    world.provide("paris", Messages(lambda _: [f"row{number}".encode() for number in range(200)]), block_rows=1)
    tokyo = world.behind("tokyo", lambda sink: UnreliableSink(sink, chance))
    recorder = world.subscribe("tokyo")
    quick = {"retry_first_seconds": 0.005, "retry_cap_seconds": 0.01}
    world.begun("paris", "tokyo")
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, max_batch_bytes=1, **quick)
    sent = [f"entry{number}".encode() for number in range(200)]
    # Each of the hundreds of frames may need its own connection and transaction, hence the long timeout.
    eventually(lambda: "complete 1" in recorder.kinds("paris"), timeout=60)
    for payload in sent:
        world.transmit("paris", payload, to=["tokyo"])
    eventually(lambda: len(recorder.log("paris")) >= len(sent), timeout=60)
    paris.drain(timeout=20)
    assert recorder.log("paris") == sent
    assert recorder.kinds("paris") == ["start 1", "snapshot 200", "complete 1", "log 200"]
    assert tokyo.lost > 10
    # A loss repeats at most the one row in flight.
    assert tokyo.snapshot_rows <= 200 + tokyo.lost
