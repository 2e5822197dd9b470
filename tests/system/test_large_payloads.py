"""Payloads at and above the size limits of the application, the source and the sink."""

import random
from typing import Any

import pytest

from lr_client import RoutingQueueSenderClient
from queues.errors import PayloadTooLargeError
from tests.system.world import World, in_log_sync, sessions_of
from tests.waiting import eventually

MIB = 1024**2


def test_the_largest_payload_arrives_and_one_byte_more_is_refused_before_anything_is_written(
    world: World, chance: random.Random
) -> None:
    largest = chance.randbytes(16 * MIB)
    recorder = world.subscribe("tokyo")
    tokyo = world.server("tokyo")
    paris = world.server("paris", peers={"tokyo": tokyo.endpoints[0]}, initial_sync="log")
    with world.site("paris").begin() as connection:
        with pytest.raises(PayloadTooLargeError, match="16777217 bytes, the limit is 16777216"):
            world.client.transmit_log_entry_message(connection, largest + b"!", ["tokyo"])
        world.client.transmit_log_entry_message(connection, b"", ["tokyo"])
    world.transmit("paris", largest, b"after", to=["tokyo"])
    eventually(lambda: len(recorder.log("paris")) == 3)
    assert recorder.log("paris") == [b"", largest, b"after"]
    paris.drain(timeout=20)


def test_a_sink_reports_a_payload_above_its_limit_and_accepts_it_after_the_limit_is_raised(world: World) -> None:
    recorder = world.subscribe("tokyo")
    small = {"max_payload_bytes": 1024, "max_batch_bytes": 1024, "tick_bytes": 1024, "max_message_bytes": 3 * MIB}
    tokyo = world.server("tokyo", listen=[], **small)
    world.begun("paris", "tokyo")
    paris = world.server(
        "paris",
        listen=[],
        peers={"tokyo": "local:tokyo"},
        initial_sync="log",
        clients=["policy"],
        slow_retry_seconds=0.1,
    )
    in_log_sync(paris, "tokyo")
    world.transmit("paris", b"before", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"before"])
    world.transmit("paris", b"x" * 4 * MIB, to=["tokyo"])
    world.transmit("paris", b"after", to=["tokyo"])
    eventually(lambda: _failed_because(sessions_of(paris)["tokyo"], f"this sink takes {3 * MIB}"))
    assert recorder.log("paris") == [b"before"]
    tokyo.stop()
    world.server("tokyo", listen=[])
    eventually(lambda: recorder.log("paris") == [b"before", b"x" * 4 * MIB, b"after"])


def _failed_because(session: dict[str, Any], words: str) -> bool:
    return session["state"] == "failed" and words in session["reason"]


def test_an_application_may_choose_a_lower_limit(world: World) -> None:
    client = RoutingQueueSenderClient("policy", max_payload_bytes=10)
    with world.site("paris").begin() as connection, pytest.raises(PayloadTooLargeError, match="split it"):
        client.transmit_log_entry_message(connection, b"x" * 11, ["tokyo"])
