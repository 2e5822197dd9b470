"""Connections that are lost in the middle: nothing is lost, doubled or sent from the beginning."""

import random

import pytest

from tests.system.faulty import UnreliableSink
from tests.system.world import Messages, World
from tests.waiting import eventually


@pytest.mark.timeout(240)
def test_a_connection_lost_again_and_again_costs_nothing_but_time(world: World, chance: random.Random) -> None:
    world.provide("paris", Messages(lambda _: [f"row{number}".encode() for number in range(200)]), block_rows=1)
    tokyo = world.behind("tokyo", lambda sink: UnreliableSink(sink, chance))
    recorder = world.subscribe("tokyo")
    quick = {"retry_first_seconds": 0.005, "retry_cap_seconds": 0.01}
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, max_batch_bytes=1, **quick)
    sent = [f"entry{number}".encode() for number in range(200)]
    # Each of hundreds of frames is a connection and a transaction of its own.
    eventually(lambda: "complete 1" in recorder.kinds("paris"), timeout=60)
    for payload in sent:
        world.transmit("paris", payload, to=["tokyo"])
    eventually(lambda: len(recorder.log("paris")) >= len(sent), timeout=60)
    paris.drain(timeout=20)
    assert recorder.log("paris") == sent
    assert recorder.kinds("paris") == ["start 1", "snapshot 200", "complete 1", "log 200"]
    assert tokyo.lost > 10
    # Each time the row in the one frame under way may have to be sent again, and nothing before it.
    assert tokyo.snapshot_rows <= 200 + tokyo.lost
