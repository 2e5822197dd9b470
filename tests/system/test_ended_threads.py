"""A server whose thread ends by itself gives up the site and says so, and a standby takes over."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lr_client.producer import Producer
from lr_server import LogReplicationServer
from lr_server.protocol.events import CaughtUp, Event
from lr_server.protocol.states import State
from lr_server.protocol.steps import Step
from lr_server.session import runner
from lr_server.source import sink_connector
from queues.clock import SystemClock
from queues.wire.replication_pb2 import NegotiateRequest, NegotiateResponse, Refusal
from queues.words import LONGEST
from tests.conftest import NewSite
from tests.system.faulty import PassingSink
from tests.system.ring_servers import RingServers
from tests.system.world import World, in_log_sync, sessions_of
from tests.waiting import eventually

THREADS = ["lrq-sequencer", "lrq-supervisor", "lrq-session-policy-tokyo"]


class BrokenClock(SystemClock):
    """Raises an error, once, in the thread of this name; only after `breaks` is set."""

    def __init__(self, thread: str, error: BaseException) -> None:
        self.breaks = threading.Event()
        self._thread = thread
        self._error: BaseException | None = error

    def monotonic(self) -> float:
        self._fail()
        return super().monotonic()

    def wait(self, event: threading.Event, timeout: float) -> bool:
        self._fail()
        return super().wait(event, timeout)

    def _fail(self) -> None:
        if self._error is not None and self.breaks.is_set() and threading.current_thread().name == self._thread:
            error, self._error = self._error, None
            raise error


@pytest.fixture
def broken(world: World) -> Callable[[str, BaseException], tuple[LogReplicationServer, BrokenClock]]:
    def start(thread: str, error: BaseException) -> tuple[LogReplicationServer, BrokenClock]:
        world.server("tokyo", listen=[])
        clock = BrokenClock(thread, error)
        peers = {"tokyo": "local:tokyo"}
        server = world.server("paris", listen=[], peers=peers, initial_sync="log", lease_seconds=60.0, clock=clock)
        world.transmit("paris", b"1", to=["tokyo"])
        in_log_sync(server, "tokyo")
        return server, clock

    return start


@pytest.mark.parametrize("thread", THREADS)
def test_a_standby_takes_over_from_a_server_whose_thread_has_ended(
    world: World, broken: Callable[..., tuple[LogReplicationServer, BrokenClock]], thread: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    recorder = world.subscribe("tokyo")
    owner, clock = broken(thread, asyncio.CancelledError())
    standby = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, initial_sync="log", lease_seconds=60.0)
    clock.breaks.set()
    if thread == "lrq-session-policy-tokyo":
        # A session reads the clock when it is about to connect again.
        owner._source.supervisor.sessions()[0]._connection.stream.break_off("the test wants it")
    eventually(lambda: standby.is_owner)
    assert not owner.is_owner
    sentence = f"the thread {thread} has ended by an error of its own: CancelledError"
    # The reason comes after the release of the lease, which the standby may take at once.
    eventually(lambda: sentence in owner.status()["server"]["reason"])
    assert "Traceback" in caplog.text
    world.transmit("paris", b"2", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"1", b"2"])


def test_an_event_that_a_session_cannot_take_fails_this_session_alone(world: World) -> None:
    server = world.link("paris", "tokyo", initial_sync="log")
    world.transmit("paris", b"1", to=["tokyo"])
    in_log_sync(server, "tokyo")
    (session,) = server._source.supervisor.sessions()
    session._post("no event")
    world.transmit("paris", b"2", to=["tokyo"])
    recorder = world.subscribe("tokyo")
    eventually(lambda: recorder.log("paris") == [b"1", b"2"])
    in_log_sync(server, "tokyo")
    assert server.is_owner


@pytest.mark.parametrize("way", ["local", "network"])
def test_a_server_gives_up_a_site_whose_session_has_ended_in_the_thread_that_makes_its_frames(
    world: World, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(sink_connector, "THREADED", 0)
    really, ended = runner.advance, list[str]()

    def advance(state: State, event: Event) -> Step:
        if isinstance(event, CaughtUp) and not ended:
            ended.append(threading.current_thread().name)
            raise asyncio.CancelledError
        return really(state, event)

    monkeypatch.setattr(runner, "advance", advance)
    (endpoint,) = world.server("tokyo").endpoints
    peers = {"tokyo": "local:tokyo" if way == "local" else endpoint}
    owner = world.server("paris", listen=[], peers=peers, initial_sync="log", lease_seconds=600.0)
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: ended)
    eventually(lambda: "has ended by an error of its own" in owner.status()["server"]["reason"])
    standby = world.server("paris", listen=[], peers=peers, initial_sync="log", lease_seconds=600.0)
    eventually(lambda: standby.is_owner)
    recorder = world.subscribe("tokyo")
    eventually(lambda: recorder.log("paris") == [b"1"])


def test_a_refusal_of_any_length_is_kept_in_a_bounded_form(world: World) -> None:
    class Verbose(PassingSink):
        def negotiate(self, request: NegotiateRequest) -> NegotiateResponse:
            return NegotiateResponse(refusal=Refusal(kind=Refusal.TRANSIENT, reason="no \0" + "x" * 3_500_000))

    world.behind("tokyo", Verbose)
    server = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, initial_sync="log")
    world.transmit("paris", b"1", to=["tokyo"])

    def told() -> str:
        """Return the reason of the session; empty while it is not that of the sink."""
        reason = str(sessions_of(server).get("tokyo", {}).get("reason", ""))
        return reason if reason.startswith("no �x") else ""

    assert len(eventually(told)) <= LONGEST
    (session,) = server._source.supervisor.sessions()
    assert len(session.standing.words.detail.removeprefix("the last try failed: ")) <= LONGEST


@pytest.mark.long
@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_another_member_of_a_ring_leads_after_the_end_of_the_thread_of_the_roles(
    new_site: NewSite, tmp_path: Path
) -> None:
    ring = RingServers(new_site, tmp_path, ring={"lease_seconds": 2.0, "stall_seconds": 3.0})
    clock = BrokenClock("lrq-ring-roles", asyncio.CancelledError())
    with closing(ring):
        ring.begin(1, 2)
        ring.servers[0] = LogReplicationServer(ring.settings[0], clock=clock)
        ring.servers[0].start()
        eventually(lambda: ring.servers[0].is_owner, timeout=180)
        with Producer(",".join(ring.members), client="policy", producer="meter") as producer:
            assert producer.send([(b"before", ["tokyo"])], timeout=120).seq == 1
            clock.breaks.set()
            assert producer.send([(b"after", ["tokyo"])], timeout=180).seq == 2
        eventually(lambda: ring.servers[1].is_owner, timeout=180)

        def shown() -> tuple[bool, str]:
            status = ring.servers[0].server_status()
            return status.owner, status.ring.role if status.ring else ""

        eventually(lambda: shown() == (False, "closed"))
        assert "the thread lrq-ring-roles has ended by an error of its own" in ring.servers[0].health_troubles()["role"]
