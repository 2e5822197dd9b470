"""With `tls_verify_site`, a sink serves a source only if the source's certificate names its site."""

from collections.abc import Iterator
from contextlib import closing

import pytest
import trustme

from queues.names import site_id
from queues.wire import replication_pb2 as pb
from sink import RemoteSink, SinkService, SinkWriter, serve
from sink.transport.credentials import Credentials
from sink.transport.endpoints import network_endpoint
from tests.certificates import issued
from tests.sink.frames import batch, request, session, tick

FRAME = batch(0, tick(0, 1, [b"x"]))


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def writer(contents) -> SinkWriter:
    return SinkWriter(contents.engine, site_id("tokyo"))


@pytest.fixture
def service(writer, authority, tmp_path) -> Iterator[SinkService]:
    (tmp_path / "sink").mkdir()
    credentials = issued(authority, tmp_path / "sink", verify_site=True)
    with serve(writer, ["tls://127.0.0.1:0", "tcp://127.0.0.1:0"], credentials=credentials) as service:
        yield service


@pytest.fixture
def named(authority, tmp_path) -> Credentials:
    return issued(authority, tmp_path, "gateway.example", "paris")


def dial(service: SinkService, credentials: Credentials | None) -> RemoteSink:
    return RemoteSink(network_endpoint(service.endpoints[0 if credentials else 1]), credentials=credentials)


def test_a_certificate_may_name_the_site_among_other_names(service, named):
    with closing(dial(service, named)) as sink:
        assert not sink.negotiate(request()).HasField("refusal")
        (ack,) = sink.replicate(iter([FRAME]))
        assert ack.received.seq == 1


def test_a_certificate_may_name_the_site_in_its_common_name(service, authority, tmp_path):
    with closing(dial(service, issued(authority, tmp_path, "gateway.example", common_name="paris"))) as sink:
        assert not sink.negotiate(request()).HasField("refusal")


def test_a_negotiation_as_another_site_is_refused(service, named, caplog):
    with closing(dial(service, named)) as sink:
        refusal = sink.negotiate(request(session(source="lima"))).refusal
    assert refusal.kind == pb.Refusal.WRONG_SITE
    assert refusal.reason.startswith("the certificate shown names 'gateway.example', 'paris', not site 'lima'")
    assert refusal.reason in caplog.text


def test_a_long_name_is_shortened_in_the_refusal(service, named):
    with closing(dial(service, named)) as sink:
        assert len(sink.negotiate(request(session(source="x" * 100_000))).refusal.reason) < 300


def test_a_frame_in_the_stream_of_another_site_is_refused(service, writer, contents, named):
    as_lima = session(source="lima")
    writer.negotiate(request(as_lima))
    with closing(dial(service, named)) as sink:
        (answer,) = sink.replicate(iter([batch(0, tick(0, 1, [b"x"]), by=as_lima)]))
    assert "not site 'lima'" in answer.refusal.reason
    assert contents.log() == []


def test_a_connection_without_tls_is_not_checked(service):
    with closing(dial(service, None)) as sink:
        assert not sink.negotiate(request()).HasField("refusal")
