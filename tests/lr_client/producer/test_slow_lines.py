"""A producer whose only server was lost in silence connects again with more patience."""

from concurrent.futures import Future

import grpc
import pytest

from lr_client.producer.desk import RequestDesk
from lr_client.producer.setup import ProducerLimits, set_up
from sink.transport.channels import Lane, options_of

#: gRPC's words for an open connection without an answer to its ping.
SILENCE = "ping timeout"


def desk(endpoints: str) -> RequestDesk[Future[object]]:
    return RequestDesk(set_up(endpoints, "policy", "meter-1", (None, None, None), ProducerLimits()), Future)


def lose(producer: RequestDesk[Future[object]], details: str) -> Lane:
    producer.failed(producer.setup.order.current, grpc.StatusCode.UNAVAILABLE, details)
    return producer.lane


def test_a_connection_that_was_lost_in_silence_is_followed_by_a_patient_one():
    producer = desk("tcp://paris:7400")
    assert producer.lane is Lane.LOG
    assert lose(producer, SILENCE) is Lane.SLOW_LOG
    assert set(options_of(Lane.SLOW_LOG)) <= set(producer.channel_options())
    assert lose(producer, "Connection refused") is Lane.LOG


@pytest.mark.parametrize("details", [SILENCE, "Connection refused"])
def test_one_of_several_servers_gets_no_more_patience(details: str):
    assert lose(desk("tcp://paris:7400,tcp://paris:7401"), details) is Lane.REPLACEABLE
