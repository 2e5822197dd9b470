"""A look whether a sink can be reached ends by itself in neither way, and waits for nothing."""

import socket

import pytest
import trustme
from sqlalchemy import Engine

from queues.errors import ConfigurationError
from queues.names import site_id
from sink import SinkWriter, local, serve
from sink.transport import channels
from sink.transport.endpoints import parse_endpoint
from sink.transport.probe import SinkProbe
from tests.certificates import issued
from tests.waiting import eventually

pytestmark = pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)


@pytest.mark.parametrize("scheme", ["tcp", "tls"])
def test_a_sink_that_listens_is_reached(engine: Engine, tmp_path, scheme: str) -> None:
    credentials = issued(trustme.CA(), tmp_path) if scheme == "tls" else None
    with serve(SinkWriter(engine, site_id("tokyo")), [f"{scheme}://127.0.0.1:0"], credentials=credentials) as service:
        probe = SinkProbe(parse_endpoint(service.endpoints[0]), credentials=credentials)
        eventually(lambda: probe.reached)
        probe.close()
        probe.close()
    assert not channels._channels


def test_a_sink_that_begins_to_listen_later_is_reached_then(engine: Engine) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    probe = SinkProbe(parse_endpoint(f"tcp://127.0.0.1:{port}"))
    assert not probe.reached
    with serve(SinkWriter(engine, site_id("tokyo")), [f"tcp://127.0.0.1:{port}"]):
        eventually(lambda: probe.reached)
    probe.close()


def test_a_server_in_this_process_is_reached_if_it_runs(engine: Engine) -> None:
    writer = SinkWriter(engine, site_id("here-alone"))
    assert not SinkProbe(parse_endpoint("local:here-alone")).reached
    local.offer(site_id("here-alone"), writer)
    assert SinkProbe(parse_endpoint("local:here-alone")).reached
    local.withdraw(site_id("here-alone"), writer)


def test_tls_needs_credentials(engine: Engine) -> None:
    with pytest.raises(ConfigurationError):
        SinkProbe(parse_endpoint("tls://127.0.0.1:1"))
