"""A subscriber receives the same calls, whether it starts before, during or after the first sync."""

import pytest

from tests.system.faulty import HeldSink
from tests.system.world import Messages, Recorder, World, in_log_sync
from tests.waiting import eventually

ROWS = 20


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_subscriber_that_starts_at_any_time_receives_the_same(world: World, when: str) -> None:
    world.provide("paris", Messages(lambda _: [f"row{number}".encode() for number in range(ROWS)]), block_rows=1)
    tokyo = world.behind("tokyo", lambda sink: HeldSink(sink, chunks=ROWS // 2))
    subscribed: list[Recorder] = [world.subscribe("tokyo")] if when == "before" else []
    world.begun("paris", "tokyo")
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, max_batch_bytes=1)
    assert tokyo.held.wait(20)
    if when == "during":
        subscribed.append(world.subscribe("tokyo"))
    for number in range(5):
        world.transmit("paris", f"early{number}".encode(), to=["tokyo"])
    tokyo.go_on.set()
    in_log_sync(paris, "tokyo")
    paris.drain(timeout=20)
    if when == "after":
        subscribed.append(world.subscribe("tokyo"))
    world.transmit("paris", b"late", to=["tokyo"])
    (recorder,) = subscribed
    eventually(lambda: recorder.log("paris")[-1:] == [b"late"])
    assert recorder.kinds("paris") == ["start 1", f"snapshot {ROWS}", "complete 1", "log 6"]
    assert recorder.snapshot("paris") == [f"row{number}".encode() for number in range(ROWS)]
    assert recorder.log("paris") == [*(f"early{number}".encode() for number in range(5)), b"late"]
