"""Outcomes that come after a call has ended with an unknown one: `settle` tells each of them once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from lr_client.producer import AsyncProducer, Producer
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
    behind = producer.submit(messages(b"2"), timeout=20)
    server.held.set()
    with pytest.raises(errors.TransientError, match="request 1 before it was refused"):
        producer.result(behind)
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


def test_after_the_end_of_the_producer_settle_tells_the_known_outcomes_first(
    server: SmallServer, new_producer: Make
) -> None:
    producer = new_producer(server.endpoint)
    server.held.clear()
    leave_unknown(producer, b"1")
    server.held.set()
    producer.send(messages(b"2"), timeout=20)
    server.faults.append(Refusal.TAKEN)
    with pytest.raises(errors.ProducerTakenError):
        producer.send(messages(b"3"), timeout=20)
    assert [each.sequence for each in producer.settle()] == [1]
    with pytest.raises(errors.ProducerTakenError):
        producer.settle()


def test_of_two_threads_that_settle_the_second_waits_for_the_first(server: SmallServer) -> None:
    with Producer(server.endpoint, client="meters", producer="meter-17") as producer, ThreadPoolExecutor(1) as thread:
        server.held.clear()
        leave_unknown(producer, b"1")
        first = thread.submit(producer.settle, 60)
        eventually(lambda: producer._desk.is_settling)
        try:
            with pytest.raises(errors.OutcomeUnknownError, match="another call of settle waits for it"):
                producer.settle(timeout=0.0)
        finally:
            server.held.set()
        assert [each.sequence for each in first.result()] == [1]
        assert producer.settle() == []


@asynccontextmanager
async def settling(server: SmallServer) -> AsyncIterator[tuple[AsyncProducer, "asyncio.Task[list[Produced]]"]]:
    """Give a producer with a request whose outcome is unknown, and a task that settles it."""
    async with AsyncProducer(server.endpoint, client="meters", producer="meter-17") as producer:
        with suppress(errors.OutcomeUnknownError):
            while True:
                # A busy machine may send nothing within the time.
                with suppress(errors.PeerUnreachableError):
                    await producer.send(messages(b"1"), timeout=1.0)
                    raise AssertionError("the request was stored")
        task = asyncio.create_task(producer.settle(60))
        await asyncio.sleep(0)
        yield producer, task


def test_of_two_tasks_that_settle_the_second_waits_for_the_first(server: SmallServer) -> None:
    async def settled() -> None:
        async with settling(server) as (producer, first):
            try:
                with pytest.raises(errors.OutcomeUnknownError, match="another call of settle waits for it"):
                    await producer.settle(timeout=0.0)
            finally:
                server.held.set()
            assert [each.sequence for each in await first] == [1]
            assert await producer.settle() == []

    server.held.clear()
    asyncio.run(settled())


def test_a_cancelled_settle_keeps_the_outcomes_for_the_next_one(server: SmallServer) -> None:
    async def settled() -> None:
        async with settling(server) as (producer, first):
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            server.held.set()
            assert [each.sequence for each in await producer.settle(20)] == [1]

    server.held.clear()
    asyncio.run(settled())


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
