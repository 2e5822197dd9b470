"""A server on a machine that refuses new threads goes on once it gets some."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from queues.names import site_id
from queues.thread_lack import NO_THREAD
from sink import RemoteSink, SinkWriter, serve
from sink.transport.call_threads import CallThreads
from sink.transport.endpoints import network_endpoint
from sink.transport.service import SinkService
from tests.sink.frames import request
from tests.threads_refused import AT_ITS_LIMIT, ENDING, OF_GRPC, no_further_thread
from tests.waiting import eventually


@pytest.fixture
def service(tokyo) -> Iterator[SinkService]:
    with serve(SinkWriter(tokyo("sqlite"), site_id("tokyo")), ["tcp://127.0.0.1:0"], first_frame_seconds=1) as service:
        yield service


def test_a_call_without_a_thread_waits_and_later_calls_are_answered(service: SinkService) -> None:
    sink = RemoteSink(network_endpoint(service.endpoints[0]))
    with ThreadPoolExecutor(1) as callers:
        with no_further_thread("lrq-sink_", "lrq-room"):
            waiting = callers.submit(sink.negotiate, request())
            assert eventually(lambda: service.trouble) == NO_THREAD
        # No further call comes: the server itself looks for room.
        assert waiting.result(20).site == "tokyo"
    assert sink.negotiate(request()).site == "tokyo"
    eventually(lambda: not service.trouble)
    sink.close()


def test_calls_that_wait_get_a_thread_each() -> None:
    threads = CallThreads(4)
    with no_further_thread("lrq-sink_", "lrq-room"):
        ends = [threads.submit(int) for _ in range(3)]
        threads.retry()
        assert threads.trouble == NO_THREAD
    threads.retry()
    assert [end.result(20) for end in ends] == [None] * 3
    assert not threads.trouble
    threads.shutdown()


@pytest.mark.parametrize("words", [AT_ITS_LIMIT, ENDING])
def test_a_server_stops_without_a_further_thread(service: SinkService, words: str) -> None:
    with no_further_thread(OF_GRPC, words=words):
        service.stop()
    service.stop()
