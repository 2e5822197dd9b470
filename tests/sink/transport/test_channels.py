"""All sessions with one address share one connection."""

import os
from collections.abc import Iterator

import psutil
import pytest
from grpc import _common

from queues.names import site_id
from sink import RemoteSink, SinkWriter, serve
from sink.transport import channels
from sink.transport.channels import Lane
from sink.transport.endpoints import network_endpoint
from tests.sink.conftest import Conversation, accepted
from tests.sink.frames import FIRST, SECOND, request
from tests.waiting import eventually


@pytest.fixture
def endpoint(engine) -> Iterator[str]:
    with serve(SinkWriter(engine, site_id("tokyo")), ["tcp://127.0.0.1:0"]) as service:
        yield service.endpoints[0]


def dial(endpoint: str, lane: Lane = Lane.LOG) -> RemoteSink:
    sink = RemoteSink(network_endpoint(endpoint), lane=lane)
    sink.negotiate(request())
    return sink


def connections(endpoint: str) -> int:
    """Count the connections of this process that lead to *endpoint*."""
    port = int(endpoint.rpartition(":")[2])
    made = psutil.Process(os.getpid()).net_connections("tcp")
    return sum(each.status == psutil.CONN_ESTABLISHED and each.raddr.port == port for each in made)


def test_two_sinks_at_one_address_share_a_connection_until_the_last_is_closed(endpoint):
    one, other = dial(endpoint), dial(endpoint)
    assert connections(endpoint) == 1
    one.close()
    other.negotiate(request())
    assert connections(endpoint) == 1
    other.close()
    eventually(lambda: connections(endpoint) == 0)


def test_each_lane_to_an_address_has_one_connection(endpoint):
    lanes = [Lane.LOG, Lane.SNAPSHOTS, Lane.LOG, Lane.SNAPSHOTS]
    sinks = [dial(endpoint, lane) for lane in lanes]
    assert connections(endpoint) == 2
    for sink, lane in zip(sinks, lanes, strict=True):
        if lane is Lane.SNAPSHOTS:
            sink.close()
    eventually(lambda: connections(endpoint) == 1)
    sinks[0].negotiate(request())
    for sink in sinks:
        sink.close()
    eventually(lambda: connections(endpoint) == 0)


def test_closing_one_sink_does_not_end_the_streams_of_another(endpoint, contents):
    one, other = dial(endpoint), dial(endpoint)
    stream = Conversation(other)
    accepted([stream.say(FIRST)])
    one.close()
    accepted([stream.say(SECOND)])
    stream.hang_up()
    other.close()
    assert len(contents.log()) == 5


def test_a_sink_after_an_interrupted_stream_gets_a_new_connection(endpoint):
    staying, leaving = dial(endpoint), dial(endpoint)
    stream = Conversation(leaving)
    accepted([stream.say(FIRST)])
    leaving.close()
    newcomer = dial(endpoint)
    assert connections(endpoint) == 2
    staying.close()
    newcomer.negotiate(request())
    newcomer.close()
    stream.hang_up()
    eventually(lambda: connections(endpoint) == 0)


def test_the_first_connection_makes_grpcs_waiting_threads_wake_seldom(endpoint, monkeypatch):
    # Where gRPC has another name for this setting, a hundred idle sessions cost 4 % of a core.
    assert "MAXIMUM_WAIT_TIMEOUT" in _common.wait.__code__.co_names
    monkeypatch.setattr(_common, "MAXIMUM_WAIT_TIMEOUT", 0.1)
    dial(endpoint).close()
    assert _common.MAXIMUM_WAIT_TIMEOUT == channels.LONGEST_SLEEP
