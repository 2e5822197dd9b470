"""Producers of both kinds against a real server in memory: faults of streams, refusals, timeouts and bounds."""

import asyncio
import math
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lr_client import LRMessageWithDestinations
from lr_client.producer import AsyncProducer, Producer, ProducerMessage
from queues import errors
from queues.positions import Position
from sink.transport import channels
from tests.lr_client.producer.small_server import MemoryLog, Refusal, SmallServer
from tests.waiting import eventually

Make = Callable[..., Any]


def messages(*payloads: bytes) -> list[tuple[bytes, list[str]]]:
    return [(payload, ["tokyo"]) for payload in payloads]


def test_send_returns_the_position_and_keeps_the_token(server: SmallServer, new_producer: Make):
    producer = new_producer(server.endpoint)
    assert producer.send(messages(b"1", b"2")) == Position("b", 1)
    assert producer.last_token == "paris/meters/b/1"
    assert producer.send(messages(b"3"), timeout=20) == Position("b", 2)
    assert server.log.payloads() == [b"1", b"2", b"3"]


def test_an_infinite_timeout_waits_for_the_answer(server: SmallServer, new_producer: Make):
    producer = new_producer(server.endpoint, max_in_flight=1)
    server.faults.extend([None, "cut", "mute"])
    first = producer.submit(messages(b"1"), timeout=math.inf)
    assert producer.send(messages(b"2"), timeout=math.inf) == Position("b", 2)
    assert producer.result(first).sequence == 1
    assert producer.last_sequence(timeout=math.inf) == 2
    producer.close(timeout=math.inf)
    assert server.log.payloads() == [b"1", b"2"]


def test_a_message_carries_its_destinations_keys_and_headers(server: SmallServer, new_producer: Make):
    given = {"item_key": "i", "partition_key": "p", "headers": {"a": "b"}}
    new_producer(server.endpoint).send(
        [ProducerMessage(b"1", ["tokyo", "lima", "tokyo"], **given), LRMessageWithDestinations(b"2", ["lima"])]
    )
    first, second = server.log.stored["meters", "meter-17"][0].messages
    assert (first.payload, list(first.destinations), dict(first.headers)) == (b"1", ["lima", "tokyo"], {"a": "b"})
    assert (first.item_key, first.partition_key) == ("i", "p")
    assert (second.payload, list(second.destinations), second.HasField("item_key")) == (b"2", ["lima"], False)


@pytest.mark.parametrize("fault", ["cut", "mute", "end", Refusal.FULL, Refusal.TRANSIENT, Refusal.NO_FOLLOWER, 77])
def test_a_request_is_repeated_until_its_answer_and_stored_once(server: SmallServer, new_producer: Make, fault: object):
    producer = new_producer(server.endpoint)
    server.faults.extend([None, fault, fault, None, fault])
    for number in range(3):
        producer.send(messages(b"%d" % number), timeout=20)
    assert server.log.payloads() == [b"0", b"1", b"2"]


def test_many_requests_on_their_way_survive_cuts_in_their_order(server: SmallServer, new_producer: Make):
    producer = new_producer(server.endpoint)
    server.faults.extend([*[None] * 10, "cut", *[None] * 10, "mute", *[None] * 10, Refusal.FULL, *[None] * 10, "end"])
    futures = [producer.submit(messages(b"%d" % number)) for number in range(100)]
    assert [producer.result(future).sequence for future in futures] == [*range(1, 101)]
    assert server.log.payloads() == [b"%d" % number for number in range(100)]


def test_another_producer_of_the_name_goes_on_after_the_last_number(server: SmallServer, new_producer: Make):
    first = new_producer(server.endpoint)
    first.send(messages(b"1"))
    first.close()
    second = new_producer(server.endpoint)
    assert second.last_sequence() == 1
    second.send(messages(b"2"))
    assert second.last_sequence() == 2
    assert server.log.payloads() == [b"1", b"2"]


def unknown(producer: Any, payload: bytes) -> errors.OutcomeUnknownError:
    """Send until the outcome is unknown. A busy machine may send nothing within the time."""

    def sent() -> errors.OutcomeUnknownError | None:
        try:
            producer.send(messages(payload), timeout=1.0)
        except errors.OutcomeUnknownError as error:
            return error
        except errors.PeerUnreachableError:
            return None
        raise AssertionError("the request was stored")

    found = eventually(sent)
    assert found is not None
    return found


def test_after_an_unknown_outcome_the_next_call_repeats_the_request_first(server: SmallServer, new_producer: Make):
    producer = new_producer(server.endpoint)
    producer.send(messages(b"1"))
    server.always = "cut"
    error = unknown(producer, b"2")
    assert "request 2 of producer meter-17 may be stored" in str(error)
    assert error.sequence == 2
    assert isinstance(error, TimeoutError | errors.TransientError)
    with pytest.raises(errors.PeerUnreachableError, match="nothing was stored in time"):
        producer.send(messages(b"3"), timeout=0)
    server.always = None
    assert producer.send(messages(b"4")) == Position("b", 3)
    assert server.log.payloads() == [b"1", b"2", b"4"]


def test_unknown_outcomes_can_be_settled(server: SmallServer, new_producer: Make):
    producer = new_producer(server.endpoint)
    assert producer.settle() == []
    server.always = "cut"
    unknown(producer, b"1")
    with pytest.raises(errors.OutcomeUnknownError):
        producer.settle(timeout=0.0)
    server.always = None
    (stored,) = producer.settle()
    assert (stored.sequence, server.log.payloads()) == (1, [b"1"])


def test_a_lost_answer_of_a_stored_request_is_no_unknown_outcome(server: SmallServer, new_producer: Make):
    server.always = "mute"
    producer = new_producer(server.endpoint)
    assert producer.send(messages(b"1"), timeout=60.0) == Position("b", 1)
    assert (server.arrived, server.log.payloads()) == (1, [b"1"])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Refusal.UNKNOWN_CLIENT, errors.ConfigurationError),
        (Refusal.NOT_ALLOWED, errors.ConfigurationError),
        (Refusal.INVALID, errors.UsageError),
        (Refusal.TOO_LARGE, errors.UsageError),
    ],
)
def test_a_refusal_for_good_is_an_error_and_the_producer_goes_on(
    server: SmallServer, new_producer: Make, kind: int, expected: type[errors.LrqError]
):
    producer = new_producer(server.endpoint)
    server.faults.append(kind)
    with pytest.raises(expected, match=f"nothing was stored: refused as {Refusal.Kind.Name(kind)}") as caught:
        producer.send(messages(b"1"))
    assert type(caught.value) is expected
    assert producer.send(messages(b"2")) == Position("b", 1)


def test_requests_behind_a_refused_one_are_not_stored(server: SmallServer, new_producer: Make):
    producer = new_producer(server.endpoint)
    server.faults.extend([None, Refusal.INVALID])
    server.held.clear()
    futures = [producer.submit(messages(b"%d" % number)) for number in range(4)]
    server.held.set()
    assert producer.result(futures[0]).sequence == 1
    with pytest.raises(errors.UsageError):
        producer.result(futures[1])
    for dropped in futures[2:]:
        with pytest.raises(errors.TransientError, match="request 2 before it was refused: refused as INVALID"):
            producer.result(dropped)
    assert server.log.payloads() == [b"0"]


@pytest.mark.parametrize("kind", [Refusal.FULL, Refusal.NO_FOLLOWER, Refusal.TRANSIENT])
def test_a_refusal_for_now_until_the_timeout_says_that_nothing_is_stored(
    server: SmallServer, new_producer: Make, kind: int
):
    server.always = kind

    def refused_in_time() -> Any:
        producer = new_producer(server.endpoint)
        # A request under way at the end of the time has an unknown outcome, and its producer keeps it.
        with suppress(errors.OutcomeUnknownError):
            with pytest.raises(errors.StoreUnavailableError, match="stored in time, send it again: refused as"):
                producer.send(messages(b"1"), timeout=1.0)
            return producer
        producer.close(0)
        return None

    producer = eventually(refused_in_time)
    server.always = None
    assert producer.send(messages(b"2")) == Position("b", 1)
    assert server.log.payloads() == [b"2"]


def test_a_site_that_lost_its_history_ends_the_producer(server: SmallServer, new_producer: Make):
    producer = new_producer(server.endpoint)
    for number in range(3):
        producer.send(messages(b"%d" % number))
    del server.log.stored["meters", "meter-17"][1:]
    server.faults.append("cut")
    for _ in range(2):
        with pytest.raises(errors.VersionLostError, match="numbers up to 1, but answered 3"):
            producer.send(messages(b"3"))
    assert new_producer(server.endpoint).send(messages(b"3")) == Position("b", 2)


def test_a_second_process_with_the_name_is_found(server: SmallServer, new_producer: Make):
    first, second = new_producer(server.endpoint), new_producer(server.endpoint)
    first.send(messages(b"1"))
    second.send(messages(b"2"))
    second.send(messages(b"3"))
    server.faults.append("cut")
    with pytest.raises(errors.ProducerTakenError, match="another process sends as producer meter-17"):
        first.send(messages(b"4"))


def test_the_next_server_is_used_after_a_failure(new_server: Callable[..., SmallServer], new_producer: Make):
    log = MemoryLog()
    one, two = new_server(log), new_server(log)
    producer = new_producer(f"tcp://127.0.0.1:1, {one.endpoint},{two.endpoint}")
    producer.send(messages(b"1"))
    one.faults.append("mute")
    producer.send(messages(b"2"))
    one.stop()
    producer.send(messages(b"3"))
    assert log.payloads() == [b"1", b"2", b"3"]
    assert two.streams


def test_a_producer_follows_the_leader_that_a_server_names(new_server: Callable[..., SmallServer], new_producer: Make):
    log = MemoryLog()
    standby, leader = new_server(log), new_server(log)
    standby.always, standby.leader = Refusal.NOT_LEADER, leader.endpoint
    producer = new_producer(standby.endpoint)
    producer.send(messages(b"1"))
    producer.send(messages(b"2"))
    assert (log.payloads(), standby.streams, leader.streams) == ([b"1", b"2"], 1, 1)


@pytest.mark.parametrize("leader", ["", "nonsense", "ipc:///tmp/other", "local:paris", "tls://127.0.0.1:1", "x" * 600])
def test_a_leader_that_cannot_be_followed_is_ignored(server: SmallServer, new_producer: Make, leader: str):
    server.leader = leader
    server.faults.extend([Refusal.NOT_LEADER] * 2)
    assert new_producer(server.endpoint).send(messages(b"1")) == Position("b", 1)


def test_without_a_server_nothing_is_stored_and_the_error_names_the_endpoint(new_producer: Make):
    producer = new_producer("tcp://127.0.0.1:1")

    def is_refused() -> bool:
        with pytest.raises(errors.PeerUnreachableError) as caught:
            producer.send(messages(b"1"), timeout=1.0)
        return re.search(r"send it again: tcp://127.0.0.1:1: .*refused", str(caught.value)) is not None

    eventually(is_refused)
    with pytest.raises(errors.PeerUnreachableError):
        producer.last_sequence(timeout=0.2)


def test_a_server_that_comes_later_is_found(new_server: Callable[..., SmallServer], new_producer: Make, tmp_path: Path):
    path = tmp_path / "s"
    producer = new_producer(f"ipc://{path}")
    with pytest.raises(errors.PeerUnreachableError):
        producer.send(messages(b"1"), timeout=0.2)
    server = new_server(listen=f"unix:{path}")
    assert producer.send(messages(b"2"), timeout=20) == Position("b", 1)
    assert server.log.payloads() == [b"2"]


def test_waiting_requests_are_bounded(server: SmallServer, new_producer: Make):
    producer = new_producer(server.endpoint, max_in_flight=2)
    server.held.clear()
    futures = [producer.submit(messages(b"%d" % number)) for number in range(2)]
    with pytest.raises(errors.PeerUnreachableError, match="nothing was stored in time"):
        producer.submit(messages(b"x"), timeout=0.1)
    server.held.set()
    assert [producer.result(future).sequence for future in futures] == [1, 2]
    producer.send(messages(b"2"))
    assert server.log.payloads() == [b"0", b"1", b"2"]


def test_close_waits_for_answers_and_ends_the_others(server: SmallServer, new_producer: Make):
    producer = new_producer(server.endpoint)
    done = producer.submit(messages(b"1"))
    producer.close()
    assert producer.result(done).sequence == 1
    for call in (lambda: producer.send(messages(b"2")), producer.last_sequence, producer.settle):
        with pytest.raises(errors.UsageError, match="the producer is closed"):
            call()
    producer.close()
    other = new_producer(server.endpoint)
    server.held.clear()
    unknown = other.submit(messages(b"2"))
    eventually(lambda: other.close(0.2) or True)
    with pytest.raises((errors.OutcomeUnknownError, errors.TransientError)):
        other.result(unknown)


class EndlessServer(SmallServer):
    """Ends no stream, also when its producer writes nothing more."""

    def Produce(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802
        context.add_callback(self.held.set)
        self.held.wait()
        yield from ()


@pytest.fixture
def endless() -> Iterator[SmallServer]:
    server = EndlessServer()
    server.held.clear()
    yield server
    server.stop()


def test_a_producer_that_closes_before_its_stream_begins_ends(endless: SmallServer, monkeypatch: pytest.MonkeyPatch):
    producer = Producer(endless.endpoint, client="meters", producer="meter-17")

    def take(*asked: Any) -> channels.SharedChannel:
        producer.close(0)
        return taken(*asked)

    taken = channels.take
    monkeypatch.setattr(channels, "take", take)
    unknown = producer.submit(messages(b"1"))
    eventually(lambda: not producer._thread.is_alive())  # type: ignore[union-attr]
    with pytest.raises(errors.TransientError, match="nothing was stored in time"):
        unknown.result()


@pytest.mark.parametrize("timeout", [None, "5", math.nan, True])
@pytest.mark.parametrize("call", ["send", "submit", "settle", "last_sequence", "close"])
def test_a_timeout_that_is_no_number_is_refused_at_once(
    server: SmallServer, new_producer: Make, call: str, timeout: Any
):
    producer = new_producer(server.endpoint)
    given = [messages(b"1")] if call in ("send", "submit") else []
    with pytest.raises(errors.UsageError, match=r"timeout is .*: use a number of seconds"):
        getattr(producer, call)(*given, timeout=timeout)
    assert server.streams == 0
    producer.send(messages(b"1"))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], errors.UsageError),
        (b"abc", errors.UsageError),
        ([(b"1", [])], errors.DestinationsError),
        ([(b"1", "tokyo")], errors.DestinationsError),
        ([(b"1", None)], errors.DestinationsError),
        ([(b"1", [["tokyo"]])], errors.InvalidNameError),
        ([(b"1", ["not a site"])], errors.InvalidNameError),
        ([("text", ["tokyo"])], errors.PayloadTypeError),
        ([(bytes(101), ["tokyo"])], errors.PayloadTooLargeError),
        ([(b"1",)], errors.UsageError),
        ([7], errors.UsageError),
        ([ProducerMessage(b"1", ["tokyo"], item_key="")], errors.InvalidKeyError),
        ([ProducerMessage(b"1", ["tokyo"], partition_key="\0")], errors.InvalidKeyError),
        ([ProducerMessage(b"1", ["tokyo"], headers={"": "x"})], errors.InvalidHeadersError),
    ],
)
def test_messages_that_no_site_accepts_are_refused_before_they_are_sent(
    server: SmallServer, new_producer: Make, given: Any, expected: type[errors.LrqError]
):
    producer = new_producer(server.endpoint, max_payload_bytes=100)
    with pytest.raises(expected):
        producer.send(given)
    assert server.streams == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"endpoints": ""}, errors.ConfigurationError),
        ({"endpoints": " , "}, errors.ConfigurationError),
        ({"endpoints": "local:paris"}, errors.ConfigurationError),
        ({"endpoints": "tls://127.0.0.1:1"}, errors.ConfigurationError),
        ({"endpoints": "tls://127.0.0.1:1", "tls_certificate": "a", "tls_key": "b", "tls_authority": "c"},
         errors.ConfigurationError),
        ({"client": "no client"}, errors.InvalidNameError),
        ({"producer": ""}, errors.InvalidNameError),
        ({"max_in_flight": 0}, errors.ConfigurationError),
        ({"max_in_flight": 1.5}, errors.ConfigurationError),
        ({"max_in_flight_bytes": None}, errors.ConfigurationError),
        ({"max_payload_bytes": 0}, errors.ConfigurationError),
        ({"max_payload_bytes": 1.5}, errors.ConfigurationError),
    ],
)  # fmt: skip
def test_unusable_arguments_are_refused(new_producer: Make, options: dict[str, Any], expected: type[errors.LrqError]):
    with pytest.raises(expected):
        new_producer(**{"endpoints": "tcp://127.0.0.1:1", **options})


def test_an_asynchronous_producer_says_that_another_event_loop_needs_its_own(server: SmallServer):
    producer = AsyncProducer(server.endpoint, client="meters", producer="meter-17")
    asyncio.run(_sent(producer, b"1"))
    with pytest.raises(errors.UsageError, match="was used in another event loop"):
        asyncio.run(_sent(producer, b"2"))
    asyncio.run(producer.close())
    assert server.log.payloads() == [b"1"]


async def _sent(producer: AsyncProducer, payload: bytes) -> None:
    await producer.send(messages(payload), timeout=20)


@pytest.mark.parametrize("endpoints", [None, 7400, ["tcp://127.0.0.1:7400"]])
def test_endpoints_that_are_no_text_are_refused_in_a_sentence(new_producer: Make, endpoints: Any):
    with pytest.raises(errors.ConfigurationError, match="endpoints must be one text"):
        new_producer(endpoints)


@pytest.mark.parametrize("given", [None, 5, b"21.5"])
def test_messages_that_are_no_collection_are_refused_in_a_sentence(server: SmallServer, new_producer: Make, given: Any):
    with pytest.raises(errors.UsageError, match="messages must be a collection"):
        new_producer(server.endpoint).send(given)
