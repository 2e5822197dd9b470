"""A call that has failed is freed at once: at the end of the process it may wait for ever."""

import gc
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest

from lr_client.producer import Producer
from lr_server.ingest.forwarding import open_upstream
from lr_server.ingest.servicer import IngestServicer
from lr_server.ring.links import RingLink
from queues.clock import SYSTEM_CLOCK
from queues.errors import LrqError, PeerUnreachableError
from queues.wire import replication_pb2 as pb
from sink import RemoteSink, serve
from sink.transport.endpoints import network_endpoint
from tests.living_calls import living_calls
from tests.lr_client.producer.small_server import SmallServer
from tests.lr_server.ingest.test_servicer import NoSink
from tests.lr_server.ring.live import ADDRESS
from tests.waiting import eventually

#: No server listens there.
NOBODY = "tcp://127.0.0.1:9"


Calls = Callable[[], list[object]]


@pytest.fixture
def calls() -> Iterator[Calls]:
    """Give a function that returns the calls made since then which are not freed; nothing collects garbage."""
    gc.collect()
    gc.disable()
    before = living_calls()
    yield lambda: [each for each in living_calls() if not any(each is earlier for earlier in before)]
    gc.enable()


def test_the_call_of_a_closed_producer_is_freed(calls: Calls):
    server = SmallServer()
    with Producer(server.endpoint, client="meters", producer="meter-17") as producer:
        producer.send([(b"21.5", ["tokyo"])])
        assert calls()
    assert not calls()
    server.stop()


def negotiate(sink: RemoteSink) -> None:
    sink.negotiate(pb.NegotiateRequest())


def replicate(sink: RemoteSink) -> None:
    for _ in sink.replicate(iter([pb.Frame()])):
        pass


@pytest.mark.parametrize("call", [negotiate, replicate])
def test_a_call_to_a_sink_that_is_away_is_freed(call: Callable[[RemoteSink], None], calls: Calls):
    with closing(RemoteSink(network_endpoint(NOBODY))) as sink:
        with pytest.raises(PeerUnreachableError):
            call(sink)
        assert not calls()


def test_the_call_to_a_leader_that_stops_is_freed(calls: Calls):
    servicer = IngestServicer(lambda *_: None, SYSTEM_CLOCK)  # type: ignore[arg-type, return-value]
    with serve(NoSink(), ["tcp://127.0.0.1:0"], more=[servicer.handlers()], more_streams=8) as service:
        upstream = open_upstream(service.endpoints[0], None, lambda _: None)
        assert calls()
    del upstream
    eventually(lambda: not calls())


def test_the_calls_to_a_member_that_is_away_are_freed(calls: Calls):
    with closing(RingLink(ADDRESS, 1, NOBODY)) as link:
        for _ in range(3):
            with suppress(LrqError):
                link.pull(0)
    eventually(lambda: not calls())
