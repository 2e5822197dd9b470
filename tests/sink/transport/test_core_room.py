"""gRPC ends a process whose threads cannot start, so it is not asked then."""

from contextlib import closing

import pytest

from lr_server.ring.look import look_at
from queues.errors import ConfigurationError, PeerUnreachableError
from queues.thread_lack import NO_THREAD
from queues.wire import replication_pb2 as pb
from sink import RemoteSink, serve
from sink.transport.endpoints import network_endpoint
from tests.lr_server.ingest.test_servicer import NoSink
from tests.lr_server.ring.live import ADDRESS
from tests.threads_refused import OF_GRPC, no_further_thread

ANYWHERE = "tcp://127.0.0.1:0"


def test_a_server_without_room_for_threads_does_not_start() -> None:
    with no_further_thread("lrq-grpc-room"), pytest.raises(ConfigurationError) as caught:
        serve(NoSink(), [ANYWHERE])
    assert str(caught.value) == NO_THREAD


@pytest.mark.parametrize("call", ["negotiate", "replicate"])
def test_a_call_without_room_for_its_threads_is_not_begun(call: str) -> None:
    with serve(NoSink(), [ANYWHERE]) as service, closing(RemoteSink(network_endpoint(service.endpoints[0]))) as sink:
        begin = {
            "negotiate": lambda: sink.negotiate(pb.NegotiateRequest()),
            "replicate": lambda: next(sink.replicate(iter([]))),
        }
        with no_further_thread("lrq-grpc-room"), pytest.raises(PeerUnreachableError) as caught:
            begin[call]()
        assert str(caught.value) == NO_THREAD


def test_a_member_of_a_ring_is_not_asked_without_room_for_threads() -> None:
    with no_further_thread("lrq-grpc-room"), pytest.raises(PeerUnreachableError) as caught:
        look_at(ADDRESS, ANYWHERE, None)
    assert str(caught.value) == NO_THREAD


def test_a_line_closes_whose_call_has_lacked_a_thread() -> None:
    with serve(NoSink(), [ANYWHERE]) as service, closing(RemoteSink(network_endpoint(service.endpoints[0]))) as sink:
        with no_further_thread(OF_GRPC), pytest.raises(PeerUnreachableError) as caught:
            next(sink.replicate(iter([])))
        assert str(caught.value) == NO_THREAD
