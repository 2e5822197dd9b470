"""A server of a sink stops or is killed inside a frame; another goes on, and the first changes nothing."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
from sqlalchemy import Engine

import lrq_packages
from queues.errors import PeerUnreachableError
from queues.names import site_id
from queues.wire import replication_pb2 as pb
from sink import RemoteSink, SinkWriter
from sink.transport.endpoints import network_endpoint
from tests.forked import Popen
from tests.sink.conftest import Contents, NumberedSink, accepted, refused
from tests.sink.frames import batch, numbered, request, tick

pytestmark = [pytest.mark.processes, pytest.mark.long]

ROOT = Path(lrq_packages.__file__).parent
#: Large entries take another path than small ones: they are stored on locked marks, by a bulk insertion.
SIZES = {"small": 1, "large": 40_000}


class Server:
    """A process of `tests.sink.stopping_program`."""

    def __init__(self, url: str, place: str) -> None:
        self.process = Popen(
            [sys.executable, "-m", "tests.sink.stopping_program", url, place],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.endpoint = self.process.stdout.readline().strip()

    def wait_until_stopped(self) -> None:
        assert os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT).si_code == os.CLD_STOPPED

    def go_on(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self) -> None:
        with suppress(ProcessLookupError):
            self.go_on()
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def server(engine: Engine) -> Iterator[Callable[[str], Server]]:
    """Give a function that starts a server which stops at a place."""
    with ExitStack() as stack:

        def start(place: str) -> Server:
            begun = Server(engine.url.render_as_string(hide_password=False), place)
            stack.callback(begun.end)
            return begun

        yield start


def frames(first: int, last: int, size: int, branch: str = "b1") -> list[pb.Frame]:
    """Return a frame for each of the entries from *first* to *last*."""
    entries = enumerate(numbered(first, last), start=first)
    return [
        batch(seq - 1, tick(seq - 1, seq, [payload * size + branch.encode()], branch=branch))
        for seq, payload in entries
    ]


def stored_at(place: str, engine: Engine) -> int:
    """Return the last entry that is stored while the server stands at *place* of the third frame."""
    return 3 if place == "stored" and engine.dialect.name == "postgresql" else 2


def send_until_silent(endpoint: str, sent: list[pb.Frame]) -> tuple[RemoteSink, Iterator[pb.Ack]]:
    """Send *sent* over a stream that the sink does not answer to the end; return the stream."""
    remote = RemoteSink(network_endpoint(endpoint))
    sink = NumberedSink(remote)
    sink.negotiate(request())
    return remote, sink.replicate(iter(sent))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("dialect", "place"),
    [
        ("postgresql", "before"), ("postgresql", "inside"), ("postgresql", "stored"),
        # SQLite has no server that could end a transaction of a stopped process.
        ("sqlite", "before"),
    ],
    indirect=["dialect"],
)  # fmt: skip
def test_a_server_that_stops_in_a_frame_holds_up_nothing_and_changes_nothing_when_it_goes_on(
    engine: Engine, server: Callable[[str], Server], contents: Contents, place: str, size: str
) -> None:
    stopped = server(place)
    other = SinkWriter(engine, site_id("tokyo"), stopped_seconds=0)
    remote, acks = send_until_silent(stopped.endpoint, frames(1, 5, SIZES[size]))
    with closing(remote):
        assert [next(acks).received.seq for _ in range(2)] == [1, 2]
        stopped.wait_until_stopped()
        given = other.negotiate(request())
        received = given.received.seq
        assert received == stored_at(place, engine)
        rest = frames(received + 1, received + 2, SIZES[size], branch="b2")
        rest[0].batch.start.branch = "b1"
        rest[1].batch.start.branch = "b2"
        for frame in rest:
            frame.session.stream = given.stream
        accepted(list(other.replicate(iter(rest))))
        before = contents.log()
        stopped.go_on()
        assert refused(list(acks)).kind in (pb.Refusal.NO_STREAM_BEGIN, pb.Refusal.TRANSIENT)
    assert contents.log() == before
    assert [payload[-2:] for _, payload in before] == [b"b1"] * received + [b"b2"] * 2


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("place", ["inside", "stored"])
def test_a_server_that_is_killed_in_a_frame_leaves_the_whole_frame_or_nothing_of_it(
    engine: Engine, server: Callable[[str], Server], contents: Contents, place: str, size: str
) -> None:
    killed = server(place)
    other = SinkWriter(engine, site_id("tokyo"))
    remote, acks = send_until_silent(killed.endpoint, frames(1, 5, SIZES[size]))
    with closing(remote):
        assert [next(acks).received.seq for _ in range(2)] == [1, 2]
        killed.wait_until_stopped()
        killed.process.kill()
        with pytest.raises(PeerUnreachableError):
            next(acks)
    given = other.negotiate(request())
    assert given.received.seq == stored_at(place, engine)
    rest = frames(given.received.seq + 1, 5, SIZES[size])
    for frame in rest:
        frame.session.stream = given.stream
    accepted(list(other.replicate(iter(rest))))
    assert [seq for seq, _ in contents.log()] == [1, 2, 3, 4, 5]
