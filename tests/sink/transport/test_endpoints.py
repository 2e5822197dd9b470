"""Endpoints are parsed, and a malformed endpoint is refused in one sentence."""

import pytest

from queues.errors import ConfigurationError
from sink.transport.endpoints import (
    AttachedEndpoint,
    IpcEndpoint,
    LocalEndpoint,
    TcpEndpoint,
    TlsEndpoint,
    network_endpoint,
    parse_endpoint,
)


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("tcp://10.0.0.2:7400", TcpEndpoint("10.0.0.2", 7400)),
        ("tcp://localhost:0", TcpEndpoint("localhost", 0)),
        ("tcp://[::1]:7400", TcpEndpoint("::1", 7400)),
        ("tls://tokyo.example:7400", TlsEndpoint("tokyo.example", 7400)),
        ("tls://[::1]:7400", TlsEndpoint("::1", 7400)),
        ("ipc:///run/lima.sock", IpcEndpoint("/run/lima.sock")),
        ("local:tokyo", LocalEndpoint("tokyo")),
        ("attached:tokyo", AttachedEndpoint("tokyo")),
    ],
)
def test_an_endpoint_is_parsed_and_written_unchanged(text, endpoint):
    assert parse_endpoint(text) == endpoint
    assert str(endpoint) == text


@pytest.mark.parametrize("text", ["tcp://[fe80::1%eth0]:7400", "tcp://[fe80::1%25eth0]:7400"])
def test_a_link_local_address_keeps_its_interface_in_the_form_that_grpc_takes(text):
    endpoint = parse_endpoint(text)
    assert endpoint == TcpEndpoint("fe80::1%eth0", 7400)
    assert endpoint.address == "[fe80::1%25eth0]:7400"
    assert parse_endpoint(str(endpoint)) == endpoint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "write tcp://"),
        ("10.0.0.2:7400", "write tcp://"),
        ("http://10.0.0.2:7400", "write tcp://"),
        ("tcp:10.0.0.2:7400", "write tcp://"),
        ("tls:10.0.0.2:7400", "write tcp://"),
        ("tls://10.0.0.2", "such as tls://"),
        ("tcp://10.0.0.2", "such as tcp://"),
        ("tcp://:7400", "such as tcp://"),
        ("tcp://10.0.0.2:7400/x", "such as tcp://"),
        ("tcp://10.0.0.2:99999", "[Pp]ort"),
        ("tcp://[::1:7400", "not an endpoint"),
        ("ipc://run/lima.sock", "three slashes"),
        ("ipc:///" + "x" * 200, "bytes"),
        ("local:", "not a valid site id"),
        ("local:a b", "not a valid site id"),
        ("tcp://h\udcff:7400", "bytes that are not UTF-8"),
        ("ipc:///run/h\udcff/lima.sock", "bytes that are not UTF-8"),
    ],
)
def test_the_error_for_a_malformed_endpoint_shows_the_right_form(text, words):
    with pytest.raises(ConfigurationError, match=words):
        parse_endpoint(text)


def test_endpoints_with_and_without_tls_differ():
    assert TlsEndpoint("10.0.0.2", 7400) != TcpEndpoint("10.0.0.2", 7400)


def test_a_local_endpoint_is_not_a_network_endpoint():
    with pytest.raises(ConfigurationError, match="in this process"):
        network_endpoint("local:tokyo")
