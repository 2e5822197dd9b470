"""A sink whose process stands still takes connections, and answers nothing; one without a process takes none."""

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trustme

from queues.errors import PeerUnreachableError
from sink import RemoteSink
from sink.transport.channels import Lane, options_of
from sink.transport.credentials import Credentials
from sink.transport.endpoints import network_endpoint
from sink.transport.remote import NEGOTIATION_TIMEOUT
from tests.certificates import issued
from tests.sink.frames import request


@pytest.fixture(params=["tcp", "ipc", "tls"])
def silent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Give the endpoint of a socket whose connections the kernel takes, and no process reads."""
    if request.param == "ipc":
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(tmp_path / "s"))
    else:
        listening = socket.create_server(("127.0.0.1", 0))
    with listening:
        listening.listen()
        at = listening.getsockname()
        yield f"ipc://{at}" if request.param == "ipc" else f"{request.param}://127.0.0.1:{at[1]}"


@pytest.fixture
def credentials(silent: str, tmp_path: Path) -> Credentials | None:
    return issued(trustme.CA(), tmp_path) if silent.startswith("tls") else None


def test_a_process_that_stands_still_is_told_with_the_remedy(silent: str, credentials: Credentials | None) -> None:
    with (
        closing(RemoteSink(network_endpoint(silent), credentials=credentials, negotiation_timeout=60)) as sink,
        pytest.raises(PeerUnreachableError) as caught,
    ):
        sink.negotiate(request())
    words = "its process takes connections and answers nothing: continue that process, or restart the server there"
    assert str(caught.value) == f"{network_endpoint(silent)} cannot be reached: {words}"


def test_a_socket_without_a_process_is_told(tmp_path: Path) -> None:
    missing = f"ipc://{tmp_path}/s"
    with closing(RemoteSink(network_endpoint(missing))) as sink, pytest.raises(PeerUnreachableError) as caught:
        sink.negotiate(request())
    # Older releases of grpcio have more words.
    said = str(caught.value)
    assert said.startswith(f"{missing} cannot be reached: ")
    assert "No such file or directory" in said


def test_a_name_without_an_address_is_told() -> None:
    unknown = "tcp://tokyo..example:7400"
    with closing(RemoteSink(network_endpoint(unknown))) as sink, pytest.raises(PeerUnreachableError) as caught:
        sink.negotiate(request())
    assert str(caught.value).startswith(f"{unknown} cannot be reached: no address is found for its name (")


@pytest.mark.parametrize("lane", Lane)
def test_a_silent_name_server_is_told_before_the_wait_for_a_negotiation_ends(lane: Lane) -> None:
    assert dict(options_of(lane))["grpc.dns_ares_query_timeout"] < 1000 * NEGOTIATION_TIMEOUT
