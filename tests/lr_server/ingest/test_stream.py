"""One stream of requests: replies keep the order of the requests, and the unanswered ones are bounded."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import pytest

from lr_server.ingest.pending import Slot
from lr_server.ingest.refusal import Refusal, refused, stored
from lr_server.ingest.stream import OUTSTANDING, OUTSTANDING_BYTES, ProduceStream, UnknownOutcomeError
from queues.clock import SYSTEM_CLOCK, Clock, SystemClock
from queues.produce_envelope import packed
from queues.wire import ingest_pb2 as pb
from tests.waiting import eventually


class Taking:
    """Keeps the slots that a stream takes, by call; `growth` are the bytes by which each slot grows."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK, *, expects_large: bool = False) -> None:
        self.growth = 0
        self.is_calm = False
        self.stream = ProduceStream(clock, lambda: self.is_calm, expects_large=expects_large)
        self.calls: list[Sequence[Slot]] = []

    @property
    def slots(self) -> list[Slot]:
        """All slots so far."""
        return [slot for slots in self.calls for slot in slots]

    def read(self, messages: Sequence[bytes]) -> None:
        """Read *messages* to their end."""
        self.stream.read(messages, self.take)

    def take(self, _requests: Sequence[bytes], slots: Sequence[Slot]) -> None:
        """See `Take`."""
        for slot in slots:
            slot.size += self.growth
        self.calls.append(slots)

    def settle(self, *numbers: int) -> None:
        """Store the requests with these numbers, from 1."""
        self.stream.settle([(self.slots[number - 1], stored(number, "", None)) for number in numbers])


@pytest.fixture
def taking() -> Iterator[Taking]:
    taking = Taking()
    yield taking
    taking.stream.end()


def single(sequence: int) -> bytes:
    return pb.ProduceRequest(client="c", producer="p", sequence=sequence).SerializeToString()


def test_replies_come_in_the_order_of_the_requests_in_one_message(taking: Taking) -> None:
    taking.read(list(packed(map(single, range(1, 6)))))
    taking.settle(3, 2, 5)
    taking.settle(1, 4)
    (message,) = taking.stream.replies()
    assert [reply.sequence for reply in message.replies] == [1, 2, 3, 4, 5]


def test_nothing_follows_a_refusal(taking: Taking) -> None:
    taking.read(list(packed(map(single, range(1, 4)))))
    wrong = refused(2, Refusal(pb.ProduceRefusal.GAP, "a gap", 0))
    taking.stream.settle([(taking.slots[1], wrong), (taking.slots[2], stored(3, "", None))])
    taking.settle(1)
    (message,) = taking.stream.replies()
    assert [reply.HasField("refusal") for reply in message.replies] == [False, True]


def test_an_unknown_outcome_ends_the_stream_after_the_replies_before_it(taking: Taking) -> None:
    taking.read(list(packed(map(single, range(1, 4)))))
    taking.stream.settle([(taking.slots[1], None)])
    taking.settle(1, 3)
    replies = taking.stream.replies()
    assert next(replies).sequence == 1
    with pytest.raises(UnknownOutcomeError):
        next(replies)


def test_a_message_with_many_requests_is_taken_in_parts_within_the_limit_of_the_stream(taking: Taking) -> None:
    many = 3 * OUTSTANDING
    reader = threading.Thread(target=taking.read, args=(list(packed(map(single, range(1, many + 1)))),))
    reader.start()
    answered = 0
    while answered < many:
        before = answered
        eventually(lambda before=before: len(taking.slots) > before)  # type: ignore[misc]
        upto = len(taking.slots)
        assert upto - answered <= OUTSTANDING
        taking.settle(*range(answered + 1, upto + 1))
        while answered < upto:
            answered += len(taking.stream._next())
    reader.join()
    assert len(taking.calls) > 3


def test_the_memory_of_requests_counts_which_their_bytes_do_not_show(taking: Taking) -> None:
    taking.growth = OUTSTANDING_BYTES // 2
    reader = threading.Thread(target=taking.read, args=([single(number) for number in range(1, 9)],))
    reader.start()
    for answered in range(8):
        eventually(lambda answered=answered: len(taking.slots) == min(answered + 2, 8))  # type: ignore[misc]
        taking.settle(answered + 1)
        assert len(taking.stream._next()) == 1
        assert len(taking.slots) <= answered + 3
    reader.join()
    taking.stream.end()
    assert taking.stream._size == 0


def test_a_reader_that_waits_for_room_ends_with_the_stream(taking: Taking) -> None:
    reader = threading.Thread(target=taking.read, args=([single(number) for number in range(1, OUTSTANDING + 2)],))
    reader.start()
    eventually(lambda: len(taking.slots) == OUTSTANDING)
    taking.stream.end()
    reader.join(20)
    assert not reader.is_alive()


class SetClock(SystemClock):
    """A clock with a time that a test sets; `looks` counts the questions for it."""

    now, looks = 0.0, 0

    def monotonic(self) -> float:
        self.looks += 1
        return self.now


@pytest.fixture
def quiet() -> Iterator[tuple[SetClock, Taking]]:
    clock = SetClock()
    taking = Taking(clock)
    clock.now = 10.0
    yield clock, taking
    taking.stream.end()


def test_a_quiet_stream_ends_among_many(quiet: tuple[SetClock, Taking]) -> None:
    assert list(quiet[1].stream.replies()) == []


def test_a_quiet_stream_among_few_waits_for_a_request_on_a_slow_line(quiet: tuple[SetClock, Taking]) -> None:
    clock, taking = quiet
    taking.is_calm, looks = True, clock.looks
    with ThreadPoolExecutor(1) as pool:
        replies = pool.submit(lambda: next(taking.stream.replies(), None))
        eventually(lambda: clock.looks > looks)
        taking.read([single(1)])
        taking.settle(1)
        assert replies.result(60).sequence == 1


@pytest.mark.parametrize(("now", "is_calm"), [(100.0, True), (10.0, False)], ids=["long quiet", "many streams"])
def test_a_quiet_stream_among_few_ends_after_a_minute_or_once_many_are_open(
    quiet: tuple[SetClock, Taking], now: float, is_calm: bool
) -> None:
    clock, taking = quiet
    taking.is_calm, looks = True, clock.looks
    with ThreadPoolExecutor(1) as pool:
        replies = pool.submit(lambda: list(taking.stream.replies()))
        eventually(lambda: clock.looks > looks)
        clock.now, taking.is_calm = now, is_calm
        assert replies.result(60) == []


def test_a_stream_that_expects_a_large_request_waits_for_the_first_one_among_many() -> None:
    clock, messages = SetClock(), SimpleQueue[bytes | None]()
    taking = Taking(clock, expects_large=True)
    replies = taking.stream.replies()
    with ThreadPoolExecutor(2) as pool:
        pool.submit(taking.read, iter(messages.get, None))
        messages.put(single(0))
        eventually(lambda: len(taking.slots) == 1)
        taking.settle(1)
        assert next(replies).sequence == 1
        clock.now, looks = 10.0, clock.looks
        following = pool.submit(next, replies, None)
        eventually(lambda: clock.looks > looks + 1 or following.done())
        messages.put(single(1))
        eventually(lambda: len(taking.slots) == 2 or following.done())
        taking.settle(2)
        assert following.result(20).sequence == 2
        clock.now = 20.0
        assert next(replies, None) is None
        messages.put(None)
