"""Producers in a process that can start no further thread."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lr_client.producer import Producer
from queues.errors import PeerUnreachableError, TransientError
from queues.thread_lack import NO_THREAD
from tests.lr_client.producer.small_server import SmallServer
from tests.threads_refused import OF_GRPC, no_further_thread

Make = Callable[..., Any]


@pytest.fixture
def threaded(server: SmallServer) -> Iterator[Producer]:
    with Producer(server.endpoint, client="meters", producer="meter-17") as producer:
        yield producer


def test_a_request_without_a_thread_is_refused_and_never_sent_later(server: SmallServer, threaded: Producer) -> None:
    with no_further_thread("lrq-producer"):
        for call in (lambda: threaded.send([(b"1", ["tokyo"])]), threaded.last_sequence):
            with pytest.raises(TransientError, match=r"nothing was stored, send it again: .*ulimit -u"):
                call()
        assert threaded.settle() == []
    threaded.send([(b"2", ["tokyo"])], timeout=20)
    assert server.log.payloads() == [b"2"]


def test_a_producer_without_a_thread_closes(server: SmallServer) -> None:
    producer = Producer(server.endpoint, client="meters", producer="meter-17")
    with no_further_thread("lrq-producer"), pytest.raises(TransientError):
        producer.send([(b"1", ["tokyo"])])
    producer.close()


def test_a_producer_waits_for_room_for_the_threads_of_grpc(server: SmallServer, new_producer: Make) -> None:
    producer = new_producer(server.endpoint)
    with no_further_thread("lrq-grpc-room"), pytest.raises(PeerUnreachableError) as caught:
        producer.send([(b"1", ["tokyo"])], timeout=0.5)
    assert NO_THREAD in str(caught.value)
    producer.send([(b"2", ["tokyo"])], timeout=20)
    assert server.log.payloads() == [b"2"]


def test_a_producer_goes_on_whose_call_lacks_a_thread_of_grpc(server: SmallServer, threaded: Producer) -> None:
    with no_further_thread(OF_GRPC), pytest.raises(PeerUnreachableError) as caught:
        threaded.send([(b"1", ["tokyo"])], timeout=0.5)
    assert NO_THREAD in str(caught.value)
    threaded.send([(b"2", ["tokyo"])], timeout=20)
    assert server.log.payloads() == [b"2"]
