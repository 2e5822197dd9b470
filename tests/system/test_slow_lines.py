"""A line so slow that a frame takes longer than the limits of silence carries the log all the same."""

import random
from collections.abc import Iterator
from contextlib import closing

import pytest

from lr_server import LogReplicationServer
from lr_server.protocol import slow_lines
from sink.transport import channels
from sink.transport.channels import Lane, options_of
from tests.system.relay import Relay
from tests.system.world import Recorder, World
from tests.waiting import eventually

#: The first connection is held after so many bytes, in the middle of the frame with the payload.
SOME = 20_000
PAYLOAD = random.Random(7).randbytes(300_000)


@pytest.fixture
def relay(world: World) -> Iterator[Relay]:
    with closing(Relay(world.server("tokyo").endpoints[0])) as relay:
        relay.held_after[0] = SOME
        yield relay


@pytest.fixture
def recorder(world: World) -> Recorder:
    return world.subscribe("tokyo")


def lets_silence_pass(monkeypatch: pytest.MonkeyPatch, milliseconds: int) -> None:
    """Give new connections another limit of silence; usually that is 15 seconds."""
    limits = channels._noticing_silence(milliseconds, milliseconds)
    monkeypatch.setattr(channels, "OPTIONS", (*channels._COMMON, *limits))


def silence(server: LogReplicationServer) -> float:
    """Return the seconds that the stream of the only session waits for an answer."""
    (session,) = server._source.supervisor.sessions()  # type: ignore[union-attr]
    stream = session._connection.stream
    return 0.0 if stream is None else stream.silent_seconds


def test_a_session_lost_in_the_middle_of_a_frame_goes_on_by_the_lane_of_slow_lines(
    world: World, relay: Relay, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    lets_silence_pass(monkeypatch, 1_000)
    monkeypatch.setattr(slow_lines, "SUSPECTED_AFTER", 0.5)
    world.server("paris", listen=[], peers={"tokyo": relay.endpoint}, initial_sync="log")
    world.transmit("paris", PAYLOAD, to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [PAYLOAD])
    assert lanes_to(relay) == {Lane.SLOW_LOG}


def test_a_large_frame_has_the_time_that_the_slowest_line_needs(
    world: World, relay: Relay, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    lets_silence_pass(monkeypatch, 600_000)
    stall_seconds = 2.0
    peers = {"tokyo": relay.endpoint}
    paris = world.server("paris", listen=[], peers=peers, initial_sync="log", stall_seconds=stall_seconds)
    world.transmit("paris", PAYLOAD, to=["tokyo"])
    eventually(lambda: relay.is_holding(0))
    eventually(lambda: silence(paris) > 2 * stall_seconds)
    relay.connections[0].go_on()
    eventually(lambda: recorder.log("paris") == [PAYLOAD])
    assert len(relay.connections) == 1


def test_the_lanes_of_slow_lines_wait_a_minute_for_an_answer() -> None:
    for lane in (Lane.SLOW_LOG, Lane.SLOW_SNAPSHOTS):
        limits = dict(options_of(lane))
        assert limits["grpc.http2.ping_timeout_ms"] == limits["grpc.keepalive_timeout_ms"] == 60_000


def test_a_session_lost_with_a_small_frame_stays_on_the_lane_that_notices_silence_soon(
    world: World, relay: Relay, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    lets_silence_pass(monkeypatch, 1_000)
    monkeypatch.setattr(slow_lines, "SUSPECTED_AFTER", 0.5)
    world.server("paris", listen=[], peers={"tokyo": relay.endpoint}, initial_sync="log")
    world.transmit("paris", b"first", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"first"])
    relay.connections[0].hold()
    world.transmit("paris", b"second", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"first", b"second"])
    assert lanes_to(relay) == {Lane.LOG}


def lanes_to(relay: Relay) -> set[Lane]:
    address = relay.endpoint.removeprefix("tcp://")
    return {key.lane for key, shared in channels._channels.items() if key.address == address and shared.users}
