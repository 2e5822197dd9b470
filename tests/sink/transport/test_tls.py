"""TLS: which certificates open a connection, and how renewed certificates take effect."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import grpc
import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from queues.errors import ConfigurationError, PeerUnreachableError
from queues.names import site_id
from queues.wire.replication_pb2_grpc import ReplicationStub
from sink import RemoteSink, SinkService, SinkWriter, serve
from sink.transport.credentials import Credentials
from sink.transport.endpoints import TcpEndpoint, TlsEndpoint, network_endpoint
from tests.certificates import issued
from tests.sink.conftest import wipe
from tests.sink.frames import request
from tests.waiting import eventually

ANYWHERE = "tls://127.0.0.1:0"

NewFolder = Callable[[str], Path]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def strangers() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def folder(tmp_path: Path) -> NewFolder:
    def made(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name

    return made


@pytest.fixture
def at_tokyo(authority, folder) -> Credentials:
    return issued(authority, folder("tokyo"))


@pytest.fixture
def at_paris(authority, folder) -> Credentials:
    return issued(authority, folder("paris"), "paris.example")


@pytest.fixture
def writer(tokyo) -> Iterator[SinkWriter]:
    engine = tokyo("sqlite")
    yield SinkWriter(engine, site_id("tokyo"))
    wipe(engine)


@pytest.fixture
def service(writer, at_tokyo) -> Iterator[SinkService]:
    with serve(writer, [ANYWHERE], credentials=at_tokyo) as service:
        yield service


def tls(service: SinkService) -> TlsEndpoint:
    endpoint = network_endpoint(service.endpoints[0])
    assert isinstance(endpoint, TlsEndpoint)
    return endpoint


def ask(endpoint: TcpEndpoint, credentials: Credentials | None) -> str:
    """Return the reason why a sink does not answer, or an empty string if it does."""
    with closing(RemoteSink(endpoint, credentials=credentials)) as sink:
        try:
            assert not sink.negotiate(request()).HasField("refusal")
        except PeerUnreachableError as error:
            return str(error)
    return ""


def test_sites_with_certificates_of_one_authority_reach_each_other(service, at_paris):
    assert not ask(tls(service), at_paris)


def test_a_client_certificate_of_another_authority_is_rejected(service, strangers, authority, folder):
    stranger = issued(strangers, folder("stranger"))
    stranger.authority.write_bytes(authority.cert_pem.bytes())
    assert "does not take the certificate shown to it" in ask(tls(service), stranger)


def test_a_client_without_a_certificate_is_rejected(service, authority):
    shown = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
    with grpc.secure_channel(tls(service).address, shown) as channel, pytest.raises(grpc.RpcError) as caught:
        ReplicationStub(channel).Negotiate(request(), timeout=60)
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE


def test_a_client_without_tls_is_rejected(service):
    endpoint = tls(service)
    assert "write tls:// here" in ask(TcpEndpoint(endpoint.host, endpoint.port), None)


def test_a_sink_without_tls_is_rejected(writer, at_paris):
    with serve(writer, ["tcp://127.0.0.1:0"]) as plain:
        endpoint = network_endpoint(plain.endpoints[0])
        assert isinstance(endpoint, TcpEndpoint)
        assert "does not speak TLS: write tcp:// here" in ask(TlsEndpoint(endpoint.host, endpoint.port), at_paris)


def test_a_sink_of_another_authority_is_rejected(writer, strangers, authority, at_paris, folder):
    stranger = issued(strangers, folder("stranger"))
    stranger.authority.write_bytes(authority.cert_pem.bytes())
    with serve(writer, [ANYWHERE], credentials=stranger) as service:
        assert "certificate is not of the authority in `tls_authority`" in ask(tls(service), at_paris)


def test_a_sink_with_the_certificate_of_another_address_is_rejected(writer, authority, at_paris, folder):
    elsewhere = issued(authority, folder("elsewhere"), "elsewhere.example")
    with serve(writer, [ANYWHERE], credentials=elsewhere) as service:
        assert "certificate is for other addresses" in ask(tls(service), at_paris)


def test_renewed_files_take_effect_with_the_next_connection(service, at_tokyo, at_paris, strangers):
    with closing(RemoteSink(tls(service), credentials=at_paris)) as before:
        before.negotiate(request())
        issued(strangers, at_tokyo.certificate.parent)
        issued(strangers, at_paris.certificate.parent, "paris.example")
        # The first connection stays open; a new connection uses the present contents of the files.
        assert not ask(tls(service), at_paris)
        before.negotiate(request())


def test_the_former_certificate_stays_in_use_if_the_new_files_are_damaged(service, at_tokyo, at_paris, caplog):
    at_tokyo.key.write_bytes(b"half of a k")
    assert not ask(tls(service), at_paris)
    eventually(lambda: any("stays in use" in record.getMessage() for record in caplog.records))
    assert "half of a k" not in caplog.text


@pytest.mark.parametrize("name", ["certificate", "key", "authority"])
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (Path.unlink, "{file} cannot be read: No such file"),
        (lambda file: file.write_bytes(b"---"), "{file}"),
    ],
    ids=["missing", "damaged"],
)
def test_the_error_for_an_unusable_file_names_the_file(at_paris, name, spoil, words):
    file = getattr(at_paris, name)
    spoil(file)
    with pytest.raises(ConfigurationError) as caught:
        at_paris.read()
    assert words.format(file=file) in str(caught.value)


def test_a_key_that_does_not_fit_the_certificate_is_refused(at_paris, at_tokyo):
    at_paris.key.write_bytes(at_tokyo.key.read_bytes())
    with pytest.raises(ConfigurationError, match=r"site\.key is not the key of .*site\.pem: bring both files"):
        at_paris.read()


def test_a_key_with_a_password_is_refused_without_a_prompt(at_paris):
    key = serialization.load_pem_private_key(at_paris.key.read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"secret")
    form = serialization.PrivateFormat.PKCS8
    at_paris.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, locked))
    with pytest.raises(ConfigurationError, match="without a password"):
        at_paris.read()


def test_the_error_for_missing_certificates_names_the_settings(writer):
    with pytest.raises(ConfigurationError, match="set tls_certificate, tls_key and tls_authority"):
        serve(writer, [ANYWHERE])
    with pytest.raises(ConfigurationError, match="set tls_certificate, tls_key and tls_authority"):
        RemoteSink(TlsEndpoint("127.0.0.1", 7400))


def test_the_representation_of_credentials_hides_the_key(at_paris):
    assert "PRIVATE" not in repr(at_paris.read())


@pytest.mark.parametrize("name", ["key", "certificate", "authority"])
def test_a_file_that_is_being_written_is_read_again(at_paris: Credentials, name: str, monkeypatch) -> None:
    """An empty key or certificate would end the process in gRPC."""
    file, whole = getattr(at_paris, name), at_paris.read()
    read_bytes = Path.read_bytes
    left = [file]

    def read(path: Path) -> bytes:
        if path in left:
            # Another process has just emptied the file, and goes on to write.
            left.remove(path)
            return b""
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", read)
    assert at_paris.read() == whole
    assert left == []


def test_files_that_change_at_each_reading_are_refused(authority, at_paris: Credentials, monkeypatch) -> None:
    read_bytes = Path.read_bytes

    def read(path: Path) -> bytes:
        found = read_bytes(path)
        if path == at_paris.key:
            issued(authority, path.parent)
        return found

    monkeypatch.setattr(Path, "read_bytes", read)
    with pytest.raises(ConfigurationError, match="is being written: try again"):
        at_paris.read()
