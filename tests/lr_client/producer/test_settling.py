"""The desk of a producer under random streams, refusals and timeouts: each outcome is told once, in order.

A request is told by its own call, or after an unknown outcome by `settle`. Each history prints its seed if it fails.
"""

import random
from collections import deque
from concurrent.futures import Future
from itertools import pairwise

import pytest

from lr_client.producer.answers import Produced
from lr_client.producer.desk import RequestDesk
from lr_client.producer.setup import ProducerLimits, set_up
from queues import errors
from queues.wire import ingest_pb2 as pb

Desk = RequestDesk[Future[Produced]]
Refusal = pb.ProduceRefusal


def new_desk(in_flight: int = 8) -> Desk:
    limits = ProducerLimits(1000, in_flight, 10**6)
    return RequestDesk(set_up("tcp://127.0.0.1:1", "meters", "m", (None, None, None), limits), Future)


class Site:
    """Stores requests by the rules of proto/ingest.proto; a stream is two queues."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.stored: list[bytes] = []
        self.requests: deque[pb.ProduceRequest] = deque()
        self.replies: deque[pb.ProduceReply] = deque()
        self.is_open = False

    def connect(self) -> None:
        self.requests.clear()
        self.replies.clear()
        self.desk.machine.connected()
        self.is_open = True

    def read(self) -> None:
        for raw in self.desk.next_messages():
            message = pb.ProduceRequest.FromString(raw)
            self.requests += [pb.ProduceRequest.FromString(each) for each in message.requests] or [message]

    def serve(self, refusal: int = 0) -> None:
        """Answer the next request; one that is stored already is accepted again."""
        request = self.requests.popleft()
        number = request.sequence
        if not number:
            self.replies.append(pb.ProduceReply(sequence=len(self.stored)))
            return
        if number == len(self.stored) + 1 and not refusal:
            self.stored.append(request.messages[0].payload)
        if number > len(self.stored):
            refused = Refusal(kind=refusal or Refusal.GAP, reason="refused", last_sequence=len(self.stored))
            self.replies.append(pb.ProduceReply(sequence=number, refusal=refused))
            self.requests.clear()
            return
        self.replies.append(pb.ProduceReply(sequence=number))

    def deliver(self) -> None:
        if self.desk.take(self.replies.popleft().SerializeToString()).ends:
            self.is_open = False

    def cut(self) -> None:
        self.desk.machine.lost("cut")
        self.is_open = False

    def step(self, chance: random.Random) -> None:
        """Do one part of the stream's work, without a fault."""
        parts = [self.read, *[self.serve] * bool(self.requests), *[self.deliver] * bool(self.replies)]
        if self.is_open:
            chance.choice(parts)()
        else:
            self.connect()

    def go_on(self) -> None:
        """Do all parts of the stream's work once, without a fault."""
        if not self.is_open:
            self.connect()
        self.read()
        if self.requests:
            self.serve()
        if self.replies:
            self.deliver()


class History:
    """An application with one producer: all that its calls were told."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.desk = new_desk(chance.choice([1, 3, 8]))
        self.site = Site(self.desk)
        self.calls: dict[int, tuple[bytes, Future[Produced]]] = {}
        self.sent = 0
        self.told: list[bytes] = []
        self.refused = 0
        self.unknown = 0
        self.settling: list[tuple[int, Future[Produced]]] | None = None

    def send(self) -> None:
        payload = b"%d" % self.sent
        content = self.desk.content([(payload, ["tokyo"])])
        if self.desk.machine.requests.has_room(len(content)):
            self.sent += 1
            key, future = self.desk.submit(content)
            self.calls[key] = payload, future

    def hear(self) -> None:
        """Take the outcomes of ended calls."""
        for key, (payload, future) in [*self.calls.items()]:
            if not future.done():
                continue
            del self.calls[key]
            try:
                assert self.site.stored[future.result().sequence - 1] == payload
                self.told.append(payload)
            except errors.OutcomeUnknownError:
                self.unknown += 1
            except errors.LrqError:
                assert payload not in self.site.stored
                self.refused += 1

    def expire(self) -> None:
        if self.calls:
            self.desk.expire(self.chance.choice([*self.calls]))

    def begin_settling(self) -> None:
        if self.settling is None:
            self.settling = self.desk.begin_settling(in_time=True)

    def end_settling(self) -> None:
        if self.settling is None:
            return
        waited, self.settling = self.settling, None
        try:
            stored = [each.sequence for each in self.desk.settled(waited)]
        except errors.OutcomeUnknownError:
            return
        except errors.LrqError:
            self.refused += 1
            self.unknown -= 1
            return
        assert all(one < two for one, two in pairwise(stored))
        self.told += [self.site.stored[number - 1] for number in stored]
        self.unknown -= len(stored)

    def fault(self) -> None:
        site = self.site
        if site.is_open and site.requests and self.chance.random() < 0.5:
            site.serve(self.chance.choice([Refusal.INVALID, Refusal.NOT_LEADER]))
        elif site.is_open:
            site.cut()

    def run(self, steps: int) -> None:
        acts = [self.send, self.send, self.expire, self.expire, self.begin_settling, self.end_settling, self.fault]
        for _ in range(steps):
            if self.chance.random() < 0.3:
                self.chance.choice(acts)()
            else:
                self.site.step(self.chance)
            self.hear()

    def end(self) -> None:
        """Settle, without further faults, until all is told."""
        for _ in range(200):
            self.begin_settling()
            for _ in range(20):
                self.site.go_on()
            self.end_settling()
            self.hear()
            if not self.unknown and not self.calls:
                return
        raise AssertionError(f"{self.unknown} outcomes are not told")


def pushed_desk(in_flight: int = 8, requests: int = 2) -> tuple[Desk, Site, list[tuple[int, Future[Produced]]]]:
    """Return a desk whose requests are written, and its site, which has answered none of them."""
    desk = new_desk(in_flight)
    site = Site(desk)
    entered = [desk.submit(desk.content([(b"%d" % number, ["tokyo"])])) for number in range(requests)]
    site.go_on()
    site.read()
    return desk, site, entered


def test_a_request_that_its_call_told_as_stored_is_not_told_again() -> None:
    desk, site, [(key, future)] = pushed_desk(requests=1)
    site.serve()
    site.cut()
    site.go_on()
    desk.expire(key)
    assert future.result().sequence == 1
    assert desk.settled(desk.begin_settling(in_time=True)) == []


def test_outcomes_are_told_in_order_although_another_call_ends_meanwhile() -> None:
    desk, site, [(one, _), (two, _)] = pushed_desk()
    desk.expire(one)
    waited = desk.begin_settling(in_time=True)
    desk.expire(two)
    for _ in range(2):
        site.serve()
        site.deliver()
    assert [each.sequence for each in desk.settled(waited)] == [1, 2]


def test_the_error_of_the_first_request_is_raised_first() -> None:
    desk, site, [(one, _), (two, _)] = pushed_desk()
    desk.expire(one)
    waited = desk.begin_settling(in_time=True)
    desk.expire(two)
    site.serve(Refusal.INVALID)
    site.deliver()
    with pytest.raises(errors.UsageError, match="nothing was stored: refused"):
        desk.settled(waited)
    with pytest.raises(errors.TransientError, match="request 1 before it was refused"):
        desk.settled(desk.begin_settling(in_time=True))


def test_a_producer_with_one_request_in_flight_forgets_no_refusal() -> None:
    desk, site, [(one, _)] = pushed_desk(in_flight=1, requests=1)
    desk.expire(one)
    site.serve(Refusal.INVALID)
    site.deliver()
    two, _ = desk.submit(desk.content([(b"2", ["tokyo"])]))
    site.go_on()
    site.read()
    desk.expire(two)
    waited = desk.begin_settling(in_time=True)
    site.serve()
    site.deliver()
    with pytest.raises(errors.UsageError, match="nothing was stored: refused"):
        desk.settled(waited)
    assert [each.sequence for each in desk.settled(desk.begin_settling(in_time=True))] == [1]


def test_a_closed_producer_says_that_an_outcome_stays_unknown() -> None:
    desk, _, [(one, _), _] = pushed_desk()
    desk.expire(one)
    waited = desk.begin_settling(in_time=True)
    desk.close()
    with pytest.raises(errors.OutcomeUnknownError, match="request 1 "):
        desk.settled(waited)
    with pytest.raises(errors.UsageError, match="closed"):
        desk.begin_settling(in_time=True)


@pytest.mark.parametrize("block", range(4))
def test_each_outcome_is_told_once(block: int) -> None:
    for seed in range(block * 250, block * 250 + 250):
        history = History(random.Random(seed))
        try:
            history.run(200)
            history.end()
            assert sorted(history.told) == sorted(history.site.stored)
            assert len(set(history.told)) == len(history.told)
        except BaseException:
            print("seed", seed)
            raise
