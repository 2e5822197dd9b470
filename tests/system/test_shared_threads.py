"""An idle session has no thread, all but the busy ones share some, and no site holds up another."""

import logging
import os
import random
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.contenders.null_sinks import NullSink
from lr_server.protocol import events as happened
from lr_server.session import stream_threads
from lr_server.source import sink_connector
from queues.blocks import decode_entries
from queues.names import SiteId
from queues.states import SessionState
from queues.wire.replication_pb2 import Ack, Frame
from sink.transport import network_loop
from sink.transport.service import SinkService, serve
from tests.system.relay import Relay
from tests.system.world import Messages, World, in_log_sync, sessions_of
from tests.waiting import eventually

#: More than the threads that make frames.
STUCK = sink_connector.WORKERS + 4
OWN = ("lrq-session-", "lrq-stream-")


@pytest.fixture(autouse=True)
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no session have threads of its own."""
    monkeypatch.setattr(sink_connector, "THREADED", 0)


def names(*starts: str) -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(starts)]


@pytest.mark.parametrize("way", ["local", "network"])
def test_an_idle_session_has_no_thread_and_sends_the_next_entry(world: World, way: str) -> None:
    (endpoint,) = world.server("tokyo").endpoints
    if way == "local":
        endpoint = "local:tokyo"
    recorder = world.subscribe("tokyo")
    # Without its bell a session would rest for a minute.
    paris = world.server(
        "paris", listen=[], peers={"tokyo": endpoint}, initial_sync="log", heartbeat_seconds=600.0, stall_seconds=900.0
    )
    for payload in (b"1", b"2", b"3"):
        world.transmit("paris", payload, to=["tokyo"])
        eventually(lambda: payload in recorder.log("paris"), timeout=40)  # noqa: B023 - called in this turn
        in_log_sync(paris, "tokyo")
        eventually(lambda: not names(*OWN))
    assert recorder.log("paris") == [b"1", b"2", b"3"]
    assert 0 < len(names("lrq-frames")) <= sink_connector.WORKERS
    paris.stop()
    eventually(lambda: not names("lrq-frames"))


def test_an_idle_session_gives_its_threads_back_and_a_busy_one_gets_some(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "lrq.session")
    monkeypatch.setattr(sink_connector, "THREADED", 1)
    monkeypatch.setattr(stream_threads, "IDLE_SECONDS", 1.0)
    (endpoint,) = world.server("tokyo").endpoints
    recorder = world.subscribe("tokyo")
    paris = world.server("paris", listen=[], peers={"tokyo": endpoint}, initial_sync="log", stall_seconds=10.0)
    sent: list[bytes] = []

    def transmit() -> None:
        # So large that a few of them in a second are much work: a busy machine carries no more.
        sent.append(b"%d" % len(sent) + os.urandom(500_000))
        world.transmit("paris", sent[-1], to=["tokyo"])

    def is_threaded() -> bool:
        transmit()
        return bool(names("lrq-stream-"))

    for _ in range(2):
        eventually(is_threaded, interval=0.1)
        eventually(lambda: not names(*OWN))
    transmit()
    eventually(lambda: len(recorder.log("paris")) >= len(sent))
    assert recorder.log("paris") == sent
    in_log_sync(paris, "tokyo")
    told = [line for line in caplog.records if line.name == "lrq.session"]
    assert not [line for line in told if line.levelno >= logging.WARNING], "a change is no trouble"
    told = [line for line in caplog.records if "'negotiated'" in line.getMessage()]
    assert len(told) == 1, "only the first connection is told"


def test_random_changes_of_threads_lose_and_double_no_entry(
    world: World, chance: random.Random, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (endpoint,) = world.server("tokyo").endpoints
    recorder = world.subscribe("tokyo")
    paris = world.server("paris", listen=[], peers={"tokyo": endpoint}, initial_sync="log")
    sent = [b"the first one"]
    world.transmit("paris", *sent, to=["tokyo"])
    in_log_sync(paris, "tokyo")
    source = paris._roles.source  # type: ignore[union-attr]
    assert source is not None
    (session,) = source.supervisor.sessions()
    threads, leave = source._sinks.stream_threads, session._connection.leave
    left: list[int] = []
    monkeypatch.setattr(session._connection, "leave", lambda: (left.append(threads._most), leave()))
    for _ in range(150):
        for _ in range(chance.randrange(4)):
            sent.append(os.urandom(chance.randrange(1, 20_000)))
            world.transmit("paris", sent[-1], to=["tokyo"])
        threads._most = chance.randrange(2)
        session._post(happened.ChangeWanted())
        if chance.random() < 0.3:
            in_log_sync(paris, "tokyo")
    eventually(lambda: len(recorder.log("paris")) >= len(sent))
    paris.drain(timeout=30)
    assert recorder.log("paris") == sent
    assert len(left) > 20
    facts = source._sinks._traffic.of(session.owed).facts
    assert facts.reconnects == 0, "nothing was wrong with a connection"
    assert sum(facts.to_sink.numbers) == len(sent), "each answer was heard"
    assert not [line for line in caplog.records if line.levelno >= logging.WARNING], "no frame came too late"


def test_a_snapshot_and_the_log_after_it_arrive_over_lost_connections(world: World) -> None:
    rows = [os.urandom(2_000) for _ in range(60)]
    with closing(Relay(world.server("tokyo").endpoints[0])) as relay:
        recorder = world.subscribe("tokyo")
        world.provide("paris", Messages(lambda _context: rows), block_rows=1)
        paris = world.server("paris", listen=[], peers={"tokyo": relay.endpoint})
        world.transmit("paris", b"in the snapshot", to=["tokyo"])
        eventually(lambda: recorder.snapshot("paris") == rows)
        sent = [b"%d" % number for number in range(20)]
        for payload in sent:
            world.transmit("paris", payload, to=["tokyo"])
            for joined in relay.connections:
                joined.cut()
        eventually(lambda: recorder.log("paris")[-len(sent) :] == sent)
        in_log_sync(paris, "tokyo")
    assert recorder.snapshot("paris") == rows


def test_a_session_tries_again_whose_stream_found_no_thread(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_connector, "THREADED", 1)
    refused: list[str] = []

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith("lrq-stream-") and len(refused) < 2:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        really(thread)

    really = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", start)
    (endpoint,) = world.server("tokyo").endpoints
    recorder = world.subscribe("tokyo")
    # A server that gives up the site takes it again after its lease: much later.
    world.server("paris", listen=[], peers={"tokyo": endpoint}, initial_sync="log", lease_seconds=600.0)
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"1"])
    assert refused == ["lrq-stream-policy-tokyo"] * 2


class Stalling(NullSink):
    """Acknowledges nothing to sites whose name begins with "stuck", and keeps the entries of the others."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[str, list[bytes]] = defaultdict(list)
        self.held: set[str] = set()
        self.go_on = threading.Event()

    def replicate(self, frames: Iterator[Frame]) -> Iterator[Ack]:
        return super().replicate(self._taken(frames))

    def _taken(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        for frame in frames:
            site = frame.session.sink
            for group in frame.batch.groups:
                if group.HasField("block"):
                    if site.startswith("stuck"):
                        self.held.add(site)
                        self.go_on.wait(60)
                    self.entries[site] += decode_entries(group.block, 1_000_000).payloads
            yield frame


@pytest.fixture
def stalling() -> Iterator[tuple[Stalling, SinkService]]:
    sink = Stalling()
    with serve(sink, ["tcp://127.0.0.1:0"]) as service:  # type: ignore[arg-type]
        yield sink, service
        sink.go_on.set()


def test_sites_that_stand_still_hold_up_no_other_one(world: World, stalling: tuple[Stalling, SinkService]) -> None:
    sink, service = stalling
    stuck = [SiteId(f"stuck{number}") for number in range(STUCK)]
    peers = dict.fromkeys([*stuck, "free"], service.endpoints[0])
    paris = world.server(
        "paris", listen=[], peers=peers, initial_sync="log", window_frames=1, stall_seconds=600.0, flow_control="drop"
    )
    sent = [b"%d" % number for number in range(10)]
    for payload in sent:
        world.transmit("paris", payload, to=[*stuck, "free"])
    eventually(lambda: sink.held == set(stuck))
    eventually(lambda: sink.entries["free"] == sent)
    sink.go_on.set()
    eventually(lambda: all(sink.entries[site] == sent for site in stuck))
    for site in stuck:
        in_log_sync(paris, site)


@pytest.mark.nightly
def test_a_site_that_is_away_costs_no_thread_and_gets_the_entries_once_it_is_back(world: World, tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/socket"
    wait = 3.0
    paris = world.server(
        "paris",
        listen=[],
        peers={"tokyo": endpoint},
        initial_sync="log",
        retry_first_seconds=wait,
        retry_cap_seconds=wait,
    )
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: sessions_of(paris).get("tokyo", {}).get("state") == SessionState.BACKING_OFF)
    eventually(lambda: not names(*OWN))
    recorder = world.subscribe("tokyo")
    world.server("tokyo", listen=[endpoint])
    eventually(lambda: recorder.log("paris") == [b"1"])


def test_a_server_stops_while_its_sinks_stand_still(world: World, stalling: tuple[Stalling, SinkService]) -> None:
    sink, service = stalling
    stuck = [SiteId(f"stuck{number}") for number in range(STUCK)]
    paris = world.server(
        "paris", listen=[], peers=dict.fromkeys(stuck, service.endpoints[0]), initial_sync="log", stall_seconds=600.0
    )
    world.transmit("paris", b"1", to=stuck)
    eventually(lambda: sink.held == set(stuck))
    paris.stop()
    assert not names(*OWN)


def test_the_refusal_of_a_sink_is_told(world: World) -> None:
    (endpoint,) = world.server("tokyo").endpoints
    paris = world.server("paris", listen=[], peers={"lima": endpoint}, initial_sync="log")
    world.transmit("paris", b"1", to=["lima"])
    told = "this is site 'tokyo', not 'lima': correct the peer's address"
    eventually(lambda: sessions_of(paris).get("lima", {}).get("reason") == told)


def test_a_forked_process_gives_each_session_its_threads(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_loop, "_is_inherited", True)
    (endpoint,) = world.server("tokyo").endpoints
    recorder = world.subscribe("tokyo")
    world.server("paris", listen=[], peers={"tokyo": endpoint}, initial_sync="log")
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"1"])
    assert names("lrq-stream-") == ["lrq-stream-policy-tokyo"]
