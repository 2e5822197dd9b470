"""A site that receives nothing for a while delays neither the ticks nor the other sites."""

import threading
from collections.abc import Iterator

import pytest

from lr_server import LogReplicationServer
from queues.wire.replication_pb2 import Ack, Frame
from sink.port import Sink
from tests.system.faulty import PassingSink
from tests.system.world import World
from tests.waiting import eventually

#: The payloads below are three times as large as this live feed.
LARGE = {"feed_bytes": 1024 * 1024, "initial_sync": "log"}
PAYLOADS = [bytes([number % 256]) * 10_000 for number in range(300)]


class StandingSink(PassingSink):
    """Reads no frame and sends no acknowledgement while `goes` is not set."""

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self.goes = threading.Event()
        self.goes.set()

    def replicate(self, frames: Iterator[Frame]) -> Iterator[Ack]:
        return self._sink.replicate(self._slowly(frames))

    def _slowly(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        for frame in frames:
            assert self.goes.wait(30)
            yield frame


def state(server: LogReplicationServer, destination: str) -> str:
    return next(str(each["state"]) for each in server.status()["sessions"] if each["destination"] == destination)


def transmit(world: World, *sites: str) -> None:
    for number in range(0, len(PAYLOADS), 10):
        world.transmit("paris", *PAYLOADS[number : number + 10], to=sites)


def measure(world: World, server: LogReplicationServer, *sites: str) -> list[bytes]:
    """Transmit until the feed has measured the speed of each site; return the transmitted payloads."""
    sent: list[bytes] = []

    def are_known() -> bool:
        sent.append(b"%d" % len(sent) * 1000)
        world.transmit("paris", sent[-1], to=sites)
        readers = server._source.feed._readers  # type: ignore[union-attr]
        return len(readers) == len(sites) and all(reader.per_second for reader in readers.values())

    eventually(are_known)
    server.drain(timeout=20)
    return sent


def in_ticks(server: LogReplicationServer) -> bool:
    log = server.status()["log"]
    return log["seq"] > len(PAYLOADS) and not log["waiting"]


def test_ticks_are_taken_while_the_only_sink_is_stopped(world: World) -> None:
    tokyo = world.server("tokyo")
    paris = world.server("paris", peers={"tokyo": tokyo.endpoints[0]}, **LARGE)
    world.transmit("paris", b"first", to=["tokyo"])
    paris.drain(timeout=20)
    tokyo.stop()
    eventually(lambda: state(paris, "tokyo") == "backing off")
    transmit(world, "tokyo")
    eventually(lambda: in_ticks(paris))


@pytest.mark.parametrize("over", ["tcp", "local"])
def test_a_site_that_awaits_its_snapshot_does_not_delay_the_others(world: World, over: str) -> None:
    sites = ["lima", "tokyo"]
    listen = ["tcp://127.0.0.1:0"] if over == "tcp" else []
    servers = {site: world.server(site, listen=listen) for site in sites}
    peers = {site: server.endpoints[0] if listen else f"local:{site}" for site, server in servers.items()}
    paris = world.server("paris", peers=peers, **LARGE)
    lima = world.subscribe("lima")
    first = measure(world, paris, *sites)
    # No provider serves the request.
    world.request_snapshots("paris", "tokyo")
    eventually(lambda: state(paris, "tokyo") == "snapshot sync")
    transmit(world, *sites)
    eventually(lambda: in_ticks(paris))
    eventually(lambda: lima.log("paris") == first + PAYLOADS)


def test_a_site_that_reads_no_frames_does_not_delay_the_others(world: World) -> None:
    tokyo = world.behind("tokyo", StandingSink)
    world.server("lima", listen=[])
    paris = world.server("paris", peers={"lima": "local:lima", "tokyo": "local:tokyo"}, **LARGE)
    lima, there = world.subscribe("lima"), world.subscribe("tokyo")
    first = measure(world, paris, "lima", "tokyo")
    tokyo.goes.clear()
    try:
        transmit(world, "lima", "tokyo")
        eventually(lambda: lima.log("paris") == first + PAYLOADS)
        assert len(there.log("paris")) < len(first + PAYLOADS)
    finally:
        tokyo.goes.set()
    paris.drain(timeout=20)
    eventually(lambda: there.log("paris") == first + PAYLOADS)
