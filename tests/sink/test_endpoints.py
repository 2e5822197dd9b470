import pytest

from queues.errors import ConfigurationError
from sink.endpoints import IpcEndpoint, LocalEndpoint, TcpEndpoint, TlsEndpoint, network_endpoint, parse_endpoint


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
    ],
)
def test_an_endpoint_is_read_and_written(text, endpoint):
    assert parse_endpoint(text) == endpoint
    assert str(endpoint) == text


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
    ],
)
def test_a_malformed_endpoint_is_told_in_words(text, words):
    with pytest.raises(ConfigurationError, match=words):
        parse_endpoint(text)


def test_an_endpoint_with_tls_is_not_the_one_without():
    assert TlsEndpoint("10.0.0.2", 7400) != TcpEndpoint("10.0.0.2", 7400)


def test_a_server_in_this_process_is_no_place_to_listen_at():
    with pytest.raises(ConfigurationError, match="in this process"):
        network_endpoint("local:tokyo")
