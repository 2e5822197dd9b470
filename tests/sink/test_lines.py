"""One connection to an address serves all who talk to it."""

import os
from collections.abc import Iterator

import psutil
import pytest
from grpc import _common

from queues.names import site_id
from sink import RemoteSink, SinkWriter, lines, serve
from sink.endpoints import network_endpoint
from tests.sink.conftest import Conversation, accepted
from tests.sink.frames import FIRST, SECOND, request
from tests.waiting import eventually


@pytest.fixture
def endpoint(engine) -> Iterator[str]:
    with serve(SinkWriter(engine, site_id("tokyo")), ["tcp://127.0.0.1:0"]) as service:
        yield service.endpoints[0]


def dial(endpoint: str) -> RemoteSink:
    sink = RemoteSink(network_endpoint(endpoint))
    sink.negotiate(request())
    return sink


def connections(endpoint: str) -> int:
    """Count the connections of this process that lead to *endpoint*."""
    port = int(endpoint.rpartition(":")[2])
    made = psutil.Process(os.getpid()).net_connections("tcp")
    return sum(each.status == psutil.CONN_ESTABLISHED and each.raddr.port == port for each in made)


def test_two_who_talk_to_one_sink_share_a_connection_until_the_last_has_closed(endpoint):
    one, other = dial(endpoint), dial(endpoint)
    assert connections(endpoint) == 1
    one.close()
    other.negotiate(request())
    assert connections(endpoint) == 1
    other.close()
    eventually(lambda: connections(endpoint) == 0)


def test_closing_one_ends_its_streams_and_nobody_elses(endpoint, contents):
    one, other = dial(endpoint), dial(endpoint)
    stream = Conversation(other)
    accepted([stream.say(FIRST)])
    one.close()
    accepted([stream.say(SECOND)])
    stream.hang_up()
    other.close()
    assert len(contents.log()) == 5


def test_who_comes_after_one_that_gave_up_in_the_middle_gets_a_new_connection(endpoint):
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


def test_grpc_still_has_the_pause_that_is_made_longer():
    assert lines._common is _common
    assert _common.MAXIMUM_WAIT_TIMEOUT == 5.0
    assert "MAXIMUM_WAIT_TIMEOUT" in _common.wait.__code__.co_names
