"""No connection of lrq goes through a proxy of the environment, which most company machines have."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import grpc
import pytest

from lr_server.ring.look import open_channel
from queues.names import site_id
from sink import RemoteSink, SinkWriter, serve
from sink.transport.endpoints import network_endpoint
from sink.transport.loop_sink import LoopSink
from tests.lr_client.producer.conftest import Blocking, Threaded
from tests.lr_client.producer.small_server import SmallServer
from tests.sink.frames import request as negotiation


@pytest.fixture(autouse=True)
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Name a proxy in the environment; no connection to the proxy may come."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        for name in ("grpc_proxy", "https_proxy", "http_proxy", "all_proxy"):
            for each in (name, name.upper()):
                monkeypatch.setenv(each, f"http://127.0.0.1:{listener.getsockname()[1]}")
        for name in ("no_grpc_proxy", "no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        yield
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.fixture(params=["tcp", "ipc"])
def sink_endpoint(request: pytest.FixtureRequest, engine, tmp_path: Path) -> Iterator[str]:
    listen = "tcp://127.0.0.1:0" if request.param == "tcp" else f"ipc://{tmp_path}/s"
    with serve(SinkWriter(engine, site_id("tokyo")), [listen]) as service:
        yield service.endpoints[0]


def test_a_session_of_a_thread_goes_past_the_proxy(sink_endpoint: str):
    with closing(RemoteSink(network_endpoint(sink_endpoint))) as sink:
        sink.negotiate(negotiation())


def test_a_session_of_the_event_loop_goes_past_the_proxy(sink_endpoint: str):
    with ThreadPoolExecutor(1) as workers, closing(LoopSink(network_endpoint(sink_endpoint), workers)) as sink:
        sink.negotiate(negotiation())


def test_a_member_of_a_ring_goes_past_the_proxy(sink_endpoint: str):
    with closing(open_channel(sink_endpoint, None)) as channel:
        grpc.channel_ready_future(channel).result(20)


@pytest.mark.parametrize("kind", [Threaded, Blocking])
def test_a_producer_goes_past_the_proxy(kind: type[Threaded | Blocking]):
    server = SmallServer()
    producer = kind(server.endpoint, client="meters", producer="meter-17")
    try:
        assert producer.last_sequence(20) == 0
    finally:
        producer.close(0)
        if isinstance(producer, Blocking):
            producer.end()
        server.stop()
