"""A producer whose servers were lost in silence connects again with more patience."""

from concurrent.futures import Future

import grpc

from lr_client.producer.answers import Accepted
from lr_client.producer.desk import RequestDesk
from lr_client.producer.line_patience import MANY_BYTES, LinePatience
from lr_client.producer.setup import ProducerLimits, set_up
from sink.transport.channels import Lane, options_of

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
