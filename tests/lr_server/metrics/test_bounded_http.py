"""The connections for metrics are bounded: many, slow and broken ones do not shut others out."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest

from lr_server.metrics.bounded_http import BoundedHttpServer, bounded_server
from sink.transport.call_slots import CallLimits
from tests.waiting import eventually

pytestmark = pytest.mark.long


def app(_environ: object, start: Callable[..., Any]) -> list[bytes]:
    start("200 OK", [("Content-Type", "text/plain")])
    return [b"all is well"]


@contextmanager
def serving(
    total: int, per_caller: int, seconds: float, served: Callable[..., Any] = app
) -> Iterator[BoundedHttpServer]:
    server = bounded_server("127.0.0.1", 0, served, limits=CallLimits(total, per_caller, seconds, "requests"))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def connect(server: BoundedHttpServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=20)


def answer(server: BoundedHttpServer) -> bytes:
    with closing(connect(server)) as asking:
        asking.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        with asking.makefile("rb") as told:
            return told.read()


class Slow:
    """An application whose answers wait until `may_answer` is set."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.asked = 0

    def __call__(self, environ: object, start: Callable[..., Any]) -> list[bytes]:
        self.asked += 1
        assert self.may_answer.wait(60.0)
        return app(environ, start)


IN_ALL_OR_OF_ONE = pytest.mark.parametrize(("total", "per_caller"), [(3, 9), (9, 3)], ids=["in all", "of one address"])


@IN_ALL_OR_OF_ONE
def test_a_request_above_the_limit_is_turned_away_in_words_and_later_ones_are_served(total, per_caller):
    slow = Slow()
    with serving(total, per_caller, 60.0, slow) as server:
        with ExitStack() as stack:
            for _ in range(3):
                asking = stack.enter_context(closing(connect(server)))
                asking.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            eventually(lambda: slow.asked == 3)
            assert b"503" in (told := answer(server))
            assert b"has 3 requests" in told
            slow.may_answer.set()
        eventually(lambda: b"all is well" in answer(server))


@IN_ALL_OR_OF_ONE
def test_idle_connections_turn_no_probe_away(total, per_caller):
    with serving(total, per_caller, 60.0) as server, ExitStack() as stack:
        idle = [stack.enter_context(closing(connect(server))) for _ in range(5)]
        assert b"all is well" in answer(server)
        # The newer ones stay, because the others were enough.
        assert [each.recv(1) for each in idle[:3]] == [b""] * 3
        idle[4].sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert idle[4].recv(8) == b"HTTP/1.0"


def test_a_slow_request_is_ended_after_its_time():
    with serving(1, 1, 0.2) as server, closing(connect(server)) as slow:
        slow.sendall(b"GET /metrics HT")
        assert slow.recv(1) == b""
        eventually(lambda: b"all is well" in answer(server))


def test_a_broken_request_writes_no_line_to_stderr(capfd):
    with serving(5, 5, 60.0) as server:
        with closing(connect(server)) as broken:
            broken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            broken.sendall(b"GET /metrics")
        assert b"all is well" in answer(server)
    assert capfd.readouterr().err == ""
