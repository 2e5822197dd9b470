"""A server beside the leader passes requests on, or tells at once why it cannot."""

import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from lr_server.ingest import forwarding, servicer
from lr_server.ingest.forwarding import Forwarded, Upstream
from lr_server.ingest.pending import Reply, Settle, Slot
from lr_server.ingest.servicer import IngestServicer
from queues.clock import SYSTEM_CLOCK
from queues.wire import ingest_pb2 as pb
from sink import serve
from tests.lr_server.ingest.test_servicer import NoSink
from tests.waiting import eventually


def ignore(_replies: Sequence[tuple[Slot, Reply]]) -> None:
    """Take replies, and forget them."""


@pytest.mark.timeout(60)
def test_a_leader_that_has_gone_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    # With this patience the test would run into its own limit.
    monkeypatch.setattr(forwarding, "_CONNECT", 600.0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        endpoint = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        told = forwarding.open_upstream(endpoint, None, ignore)
    assert told == f"the server that stores requests, at {endpoint}, cannot be reached from here"


@pytest.mark.timeout(60)
def test_producers_that_meet_a_dead_leader_together_leave_no_failing_thread(monkeypatch: pytest.MonkeyPatch):
    failed: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda hook: failed.append(repr(hook.exc_value)))
    before = {each.ident for each in threading.enumerate()}
    with socket.socket() as taken, ThreadPoolExecutor(6) as producers:
        taken.bind(("127.0.0.1", 0))
        endpoint = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        for _ in range(20):
            told = producers.map(lambda _: forwarding.open_upstream(endpoint, None, ignore), range(6))
            assert all(isinstance(each, str) for each in told)
    # gRPC's threads end by themselves.
    eventually(lambda: {each.ident for each in threading.enumerate()} <= before)
    assert not failed


def test_a_malformed_endpoint_is_told():
    assert "nowhere" in str(forwarding.open_upstream("nowhere", None, ignore))


class Leader:
    """The intake of a leader, which answers requests but b"silence"."""

    def __init__(self, settle: Settle) -> None:
        self.settle = settle

    def take(self, requests: Sequence[bytes], slots: Sequence[Slot]) -> None:
        answered = [slot for request, slot in zip(requests, slots, strict=True) if request != b"silence"]
        self.settle([(slot, pb.ProduceReply(sequence=1)) for slot in answered])

    def close(self) -> None:
        """Hold nothing."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    servicer = IngestServicer(lambda _, settle: Leader(settle), SYSTEM_CLOCK)  # type: ignore[arg-type, return-value]
    with serve(NoSink(), ["tcp://127.0.0.1:0"], more=[servicer.handlers()], more_streams=8) as service:
        yield service.endpoints[0]


def opened(endpoint: str) -> Upstream:
    """Return a stream to the leader that has answered a request."""
    replies: list[Sequence[tuple[Slot, Reply]]] = []
    upstream = forwarding.open_upstream(endpoint, None, replies.append)
    assert isinstance(upstream, Upstream)
    assert upstream.send([Forwarded(1, b"request", Slot(7))])
    eventually(lambda: replies)
    return upstream


@pytest.mark.parametrize(("request_at_the_end", "is_shared"), [(b"", True), (b"silence", False)])
def test_a_stream_that_ends_after_all_answers_leaves_its_connection_to_others(
    endpoint: str, request_at_the_end: bytes, is_shared: bool
) -> None:
    first, second = opened(endpoint), opened(endpoint)
    assert first._shared is second._shared
    if request_at_the_end:
        first.send([Forwarded(2, request_at_the_end, Slot(7))])
    first.close()
    eventually(lambda: first._shared.users == 1)
    third = opened(endpoint)
    assert (third._shared is second._shared) == is_shared
    for each in (second, third):
        each.close()


def test_a_stream_that_was_turned_away_before_its_first_request_tells_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servicer, "STREAMS_PER_CALLER", 1)
    leader = IngestServicer(lambda _, settle: Leader(settle), SYSTEM_CLOCK)  # type: ignore[arg-type, return-value]
    with serve(NoSink(), ["tcp://127.0.0.1:0"], more=[leader.handlers()], more_streams=8) as service:
        first = opened(service.endpoints[0])
        second = forwarding.open_upstream(service.endpoints[0], None, ignore)
        assert isinstance(second, Upstream)
        eventually(lambda: not second.send([]))
        assert "as many as one caller may have" in second.problem
        assert second.problem.endswith(f"send them to {service.endpoints[0]}")
        first.close()
