"""Stored requests are answered by the tick that covers them; looking them up costs much and is the exception."""

import weakref
from collections.abc import Sequence
from math import ceil
from typing import Final

import pytest

from lr_server.ingest.answers import AT_ONCE, Answers
from lr_server.ingest.pending import Pending, Reply, Slot
from queues.clock import SystemClock
from queues.errors import StoreUnavailableError
from queues.names import ClientName, SiteId
from queues.positions import Position, PositionToken, Tick
from queues.send_log.outbox import NewEntry
from queues.send_log.port import LogRow, TickRows
from queues.send_log.producers import Last, Place, ProducerKey, Production, RequestVerdict, StoreOutcome
from tests.waiting import eventually

POLICY: Final = ClientName("policy")
MANY: Final = 200
TRANSACTION: Final = 7
LOST: Final = Place(is_durable=False, is_lost=True)


class SlowMachine(SystemClock):
    """Each look at the clock is some seconds later than the one before, so that every request is late."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def monotonic(self) -> float:
        self._seconds += 2.0
        return self._seconds


class Looked:
    """A store in which requests have a known place; it keeps the requests and the sizes of its looks."""

    is_durable_at_once = False

    def __init__(self) -> None:
        self.looked: list[int] = []
        self.looks: list[int] = []
        self.is_down = False
        self.has_lost = False

    def store(self, requests: Sequence[Production], created_us: int) -> list[StoreOutcome]:
        raise NotImplementedError

    def places(self, asked: Sequence[tuple[ProducerKey, Last]]) -> list[Place]:
        numbers = [last.sequence for _, last in asked]
        self.looked += numbers
        self.looks.append(len(numbers))
        if self.is_down:
            raise StoreUnavailableError("the database cannot be used just now")
        found = [Place(is_durable=True, position=Position("b", number)) for number in numbers]
        return [LOST] * len(asked) if self.has_lost else found

    def close(self) -> None:
        pass


class Numbered(Slot):
    """The slot of the request with this number."""

    def __init__(self, number: int) -> None:
        super().__init__(1)
        self.number = number


class Replies:
    """The replies to requests, by their numbers; `told` counts the calls."""

    def __init__(self) -> None:
        self.seqs: dict[int, int] = {}
        self.told = 0

    def settle(self, replies: Sequence[tuple[Slot, Reply]]) -> None:
        """Note the replies."""
        self.told += 1
        for slot, reply in replies:
            assert isinstance(slot, Numbered)
            self.seqs[slot.number] = reply.position.seq if reply is not None else -1

    def group(self, count: int) -> tuple[list[Pending], list[StoreOutcome]]:
        """Return *count* requests that share a transaction, with their outcomes."""
        token = str(PositionToken(SiteId("paris"), POLICY, "b", TRANSACTION))
        pending, outcomes = [], []
        for number in range(1, count + 1):
            production = Production(ProducerKey(POLICY, f"p{number}"), number, [])

            pending.append(Pending(production, Numbered(number), self.settle))
            last = Last(number, token, request=number - 1)
            outcomes.append(StoreOutcome(RequestVerdict.STORED, last))
        return pending, outcomes


def tick(count: int) -> TickRows:
    """Return the tick of `Replies.group`."""
    rows = [
        LogRow(TRANSACTION, 1, number, "policy", 1, None, 0, b"x", request=number or None) for number in range(count)
    ]
    return TickRows(Tick(1, 1, "b", 0, count, count, False, "", 0), rows, {})


@pytest.fixture
def store() -> Looked:
    return Looked()


def made(store: Looked, clock: SystemClock) -> Answers:
    return Answers(store, clock=clock, on_ended=lambda _: None)


def test_late_requests_are_not_looked_up_while_their_tick_waits_to_be_heard(store: Looked) -> None:
    answers, replies = made(store, SlowMachine()), Replies()
    answers.begin()
    answers.answer(*replies.group(MANY))
    answers.ticked(tick(MANY))
    answers.start()
    answers.stop(60)
    assert replies.seqs == {number: number for number in range(1, MANY + 1)}
    assert not store.looked


def test_a_tick_tells_a_stream_of_all_its_replies_at_once(store: Looked) -> None:
    answers, replies = made(store, SystemClock()), Replies()
    answers.begin()
    answers.answer(*replies.group(MANY))
    answers.ticked(tick(MANY))
    answers.start()
    answers.stop(60)
    assert len(replies.seqs) == MANY
    assert replies.told == 1


class Entries(list[NewEntry]):
    """Entries that a test may watch."""


def test_the_payloads_of_stored_requests_take_no_memory_while_their_tick_is_late(store: Looked) -> None:
    answers, replies = made(store, SystemClock()), Replies()
    (pending,), outcomes = replies.group(1)
    entries = Entries()
    kept = weakref.ref(entries)
    answers.begin()
    answers.answer([pending._replace(production=pending.production._replace(entries=entries))], outcomes)
    del entries
    assert kept() is None
    answers.ticked(tick(1))
    answers.start()
    answers.stop(60)
    assert replies.seqs == {1: 1}


def test_requests_whose_tick_is_not_told_are_all_looked_up_without_further_events(store: Looked) -> None:
    answers, replies = made(store, SlowMachine()), Replies()
    answers.start()
    answers.begin()
    answers.answer(*replies.group(MANY))
    eventually(lambda: len(replies.seqs) == MANY)
    answers.stop(60)
    assert replies.seqs == {number: number for number in range(1, MANY + 1)}
    assert sorted(store.looked) == list(range(1, MANY + 1))


def test_many_requests_share_few_looks_of_limited_size(store: Looked) -> None:
    answers, replies = made(store, SlowMachine()), Replies()
    answers.begin()
    answers.answer(*replies.group(1_000))
    answers.start()
    answers.stop(60)
    assert replies.seqs == {number: number for number in range(1, 1_001)}
    assert sum(store.looks) == 1_000
    assert max(store.looks) == AT_ONCE
    assert len(store.looks) == ceil(1_000 / AT_ONCE)


def test_a_database_that_is_down_is_asked_now_and_then_and_the_requests_are_answered_later(store: Looked) -> None:
    answers, replies = made(store, SystemClock()), Replies()
    store.is_down = True
    answers.start()
    answers.begin()
    answers.answer(*replies.group(MANY))
    eventually(lambda: answers.trouble)
    for _ in range(MANY):
        answers.begin()
    eventually(answers._events.empty)
    assert len(store.looks) < MANY // 2
    store.is_down = False
    eventually(lambda: len(replies.seqs) == MANY)
    answers.stop(60)
    assert answers.trouble == ""


def test_a_failed_look_is_no_trouble_any_more_once_a_tick_has_answered_all_requests(store: Looked) -> None:
    answers, replies = made(store, SystemClock()), Replies()
    store.is_down = True
    answers.start()
    answers.begin()
    answers.answer(*replies.group(1))
    eventually(lambda: answers.trouble)
    answers.ticked(tick(1))
    eventually(lambda: not answers.trouble)
    answers.stop(60)
    assert replies.seqs == {1: 1}


def test_lost_requests_stay_without_an_answer_though_a_tick_covers_a_later_transaction_of_that_id(
    store: Looked,
) -> None:
    answers, replies = made(store, SystemClock()), Replies()
    store.has_lost = True
    answers.begin()
    answers.answer(*replies.group(MANY))
    answers.interrupted()
    answers.ticked(tick(MANY))
    answers.start()
    answers.stop(60)
    assert replies.seqs == dict.fromkeys(range(1, MANY + 1), -1)


def test_a_group_that_is_stored_while_the_sequencer_begins_anew_is_looked_up(store: Looked) -> None:
    answers, replies = made(store, SystemClock()), Replies()
    store.has_lost = True
    answers.begin()
    answers.ticked(tick(MANY))
    answers.interrupted()
    answers.ticked(tick(MANY))
    answers.answer(*replies.group(MANY))
    answers.start()
    answers.stop(60)
    assert replies.seqs == dict.fromkeys(range(1, MANY + 1), -1)


def test_ticks_answer_requests_again_that_are_stored_after_the_sequencer_began_anew(store: Looked) -> None:
    answers, replies = made(store, SystemClock()), Replies()
    answers.interrupted()
    answers.begin()
    answers.answer(*replies.group(MANY))
    answers.ticked(tick(MANY))
    answers.start()
    answers.stop(60)
    assert replies.seqs == {number: number for number in range(1, MANY + 1)}
    assert not store.looked


def test_a_tick_that_is_heard_before_the_outcomes_of_its_group_answers_them_without_a_look(store: Looked) -> None:
    answers, replies = made(store, SystemClock()), Replies()
    answers.begin()
    answers.ticked(tick(MANY))
    answers.answer(*replies.group(MANY))
    answers.start()
    eventually(lambda: len(replies.seqs) == MANY)
    answers.stop(60)
    assert replies.seqs == {number: number for number in range(1, MANY + 1)}
    assert not store.looked
