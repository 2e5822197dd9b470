"""Outcomes that come after a call has ended with an unknown one: `settle` tells each of them once."""

from collections.abc import Callable
from typing import Any

import pytest

from lr_client.producer.answers import Produced
from lr_client.producer.late_outcomes import LateOutcomes
from queues import errors
from queues.positions import ORIGIN
from tests.lr_client.producer.small_server import Refusal, SmallServer
from tests.waiting import eventually

Make = Callable[..., Any]


def messages(payload: bytes) -> list[tuple[bytes, list[str]]]:
    return [(payload, ["tokyo"])]


def leave_unknown(producer: Any, *payloads: bytes) -> None:
    """Send each payload until its outcome is unknown. A busy machine may send nothing within the time."""
    for payload in payloads:

        def is_unknown(payload: bytes = payload) -> bool:
            try:
                producer.send(messages(payload), timeout=1.0)
            except errors.OutcomeUnknownError:
                return True
            except errors.PeerUnreachableError:
                return False
            raise AssertionError("the request was stored")

        eventually(is_unknown)


def test_settle_returns_a_request_that_was_answered_before(server: SmallServer, new_producer: Make) -> None:
    producer = new_producer(server.endpoint)
    server.held.clear()
    leave_unknown(producer, b"1")
    server.held.set()
    producer.send(messages(b"2"), timeout=20)
    assert [each.sequence for each in producer.settle()] == [1]
    assert producer.settle() == []


def test_settle_returns_a_stored_request_whose_answer_was_lost(server: SmallServer, new_producer: Make) -> None:
    producer = new_producer(server.endpoint)
    server.held.clear()
    leave_unknown(producer, b"1")
    server.faults.append("mute")
    server.held.set()
    producer.send(messages(b"2"), timeout=20)
    assert [each.sequence for each in producer.settle()] == [1]


def test_settle_raises_the_error_of_a_request_that_was_refused_before(server: SmallServer, new_producer: Make) -> None:
    producer = new_producer(server.endpoint)
    server.held.clear()
    leave_unknown(producer, b"1")
    server.faults.append(Refusal.INVALID)
    server.held.set()
    with pytest.raises(errors.TransientError, match="request 1 before it was refused"):
        producer.send(messages(b"2"), timeout=20)
    with pytest.raises(errors.UsageError, match="nothing was stored: refused as INVALID"):
        producer.settle()
    assert producer.settle() == []


def test_after_an_error_the_next_settle_returns_the_stored_requests(server: SmallServer, new_producer: Make) -> None:
    producer = new_producer(server.endpoint)
    server.held.clear()
    leave_unknown(producer, b"1", b"2")
    server.faults.extend([None, Refusal.INVALID])
    server.held.set()
    with pytest.raises(errors.UsageError, match="refused as INVALID"):
        producer.settle(timeout=20)
    assert [each.sequence for each in producer.settle()] == [1]


def test_after_a_timeout_settle_awaits_all_requests_again(server: SmallServer, new_producer: Make) -> None:
    producer = new_producer(server.endpoint)
    server.held.clear()
    leave_unknown(producer, b"1", b"2")
    with pytest.raises(errors.OutcomeUnknownError):
        producer.settle(timeout=0.0)
    server.held.set()
    assert [each.sequence for each in producer.settle(timeout=20)] == [1, 2]


def test_an_application_that_never_settles_loses_the_oldest_outcomes() -> None:
    late = LateOutcomes(2)
    for number in range(1, 4):
        late.doubt(number)
        late.heard(number, Produced(number, ORIGIN, ""))
    assert [each.sequence for each in late.take()] == [2, 3]


def test_an_outcome_that_a_call_has_told_is_not_told_again() -> None:
    late = LateOutcomes(2)
    late.heard(1, Produced(1, ORIGIN, ""))
    late.doubt(2)
    late.await_again(2)
    late.heard(2, Produced(2, ORIGIN, ""))
    assert late.take() == []
