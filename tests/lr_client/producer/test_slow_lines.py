"""A producer whose servers were lost in silence connects again with more patience."""

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import grpc
import pytest

from lr_client.producer.answers import Accepted
from lr_client.producer.desk import RequestDesk
from lr_client.producer.line_patience import MANY_BYTES, LinePatience
from lr_client.producer.setup import ProducerLimits, set_up
from queues.produce_envelope import EXPECTS_LARGE, LARGE_BYTES
from queues.wire import ingest_pb2 as pb
from sink.transport.channels import Lane, options_of
from tests.lr_client.producer.conftest import Blocking, Threaded
from tests.lr_client.producer.small_server import SmallServer

#: gRPC's words for an open connection without an answer to its ping.
SILENCE = "ping timeout"
REFUSAL = "Connection refused"


def desk(endpoints: str) -> RequestDesk[Future[object]]:
    return RequestDesk(set_up(endpoints, "policy", "meter-1", (None, None, None), ProducerLimits()), Future)


def lose(producer: RequestDesk[Future[object]], details: str, size: int = MANY_BYTES) -> Lane:
    """Lose a connection with a request of *size* bytes on the way; return the lane of the next connection."""
    machine = producer.machine
    if not machine.requests.numbered:
        producer.submit(bytes(size))
    machine.connected()
    producer.next_messages()
    machine.answered(Accepted(0))
    producer.next_messages()
    producer.failed(producer.setup.order.current, grpc.StatusCode.UNAVAILABLE, details)
    return producer.lane


def test_a_connection_that_was_lost_in_silence_is_followed_by_a_patient_one():
    producer = desk("tcp://paris:7400")
    assert producer.lane is Lane.LOG
    assert lose(producer, SILENCE) is Lane.SLOW_LOG
    assert set(options_of(Lane.SLOW_LOG)) <= set(producer.channel_options())
    assert lose(producer, REFUSAL) is Lane.LOG


def test_a_silence_with_a_small_request_tells_no_slow_line():
    assert lose(desk("tcp://paris:7400"), SILENCE, MANY_BYTES - 1) is Lane.LOG


def test_one_of_several_servers_gets_more_patience_after_the_second_silence():
    producer = desk("tcp://paris:7400,tcp://paris:7401")
    assert lose(producer, SILENCE) is Lane.REPLACEABLE
    # One of the servers is down besides.
    assert lose(producer, REFUSAL) is Lane.REPLACEABLE
    assert lose(producer, SILENCE) is Lane.SLOW_LOG
    # After the end of the patient connection a dead server is noticed soon again.
    assert lose(producer, SILENCE) is Lane.REPLACEABLE


def test_a_stored_request_ends_the_suspicion_and_keeps_the_patience():
    patience = LinePatience(2)
    patience.lost(MANY_BYTES, in_silence=True)
    patience.stored()
    patience.lost(MANY_BYTES, in_silence=True)
    assert not patience.is_patient
    patience.lost(MANY_BYTES, in_silence=True)
    patience.stored()
    assert patience.is_patient


def test_a_question_that_tells_of_a_stored_request_ends_the_suspicion() -> None:
    producer = desk("tcp://paris:7400,tcp://paris:7401")
    lose(producer, SILENCE)
    machine = producer.machine
    machine.connected()
    producer.next_messages()
    # The line has carried the request, so the next silence is the first one.
    producer.take(pb.ProduceReply(sequence=machine.requests.numbered[0].number).SerializeToString())
    assert not machine.requests.numbered
    producer.submit(bytes(MANY_BYTES))
    producer.next_messages()
    producer.failed(producer.setup.order.current, grpc.StatusCode.UNAVAILABLE, SILENCE)
    assert producer.lane is Lane.REPLACEABLE


class HearingServer(SmallServer):
    """A server that notes whether each stream expects a large request."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[bool] = []

    def Produce(self, request_iterator: Iterator[pb.ProduceRequest], context: Any) -> Iterator[pb.ProduceReply]:  # noqa: N802
        self.heard.append(EXPECTS_LARGE in context.invocation_metadata())
        return super().Produce(request_iterator, context)


@pytest.mark.parametrize("kind", [Threaded, Blocking])
@pytest.mark.parametrize(("size", "is_large"), [(LARGE_BYTES, True), (LARGE_BYTES // 2, False)])
def test_a_stream_tells_the_server_that_a_large_request_follows(
    kind: type[Threaded | Blocking], size: int, is_large: bool
):
    server = HearingServer()
    producer = kind(server.endpoint, client="meters", producer="meter-17")
    try:
        producer.send([(bytes(size), ["tokyo"])])
    finally:
        producer.close(0)
        if isinstance(producer, Blocking):
            producer.end()
        server.stop()
    assert server.heard == [is_large]
