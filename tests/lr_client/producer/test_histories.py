"""Random histories of a producer and a site: lost answers, late copies, refusals, timeouts and restarts."""

from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lr_client.producer.answers import Accepted, Declined, DeclineKind, FailureCause, Produced, RequestOutcome
from lr_client.producer.machine import ProducerMachine, StreamPhase
from lr_client.producer.requests import QUESTION

PASSING = st.sampled_from([DeclineKind.FULL, DeclineKind.NO_FOLLOWER, DeclineKind.NOT_LEADER, DeclineKind.TRANSIENT])


@dataclass
class Stream:
    """The requests on their way to the site, and the answers on their way back."""

    requests: deque[tuple[int, bytes]] = field(default_factory=deque)
    answers: deque[Accepted | Declined] = field(default_factory=deque)
    is_refused: bool = False


class Histories(RuleBasedStateMachine):
    """The site is a list of contents. Contents that begin with `bad` are refused for good, always."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: list[bytes] = []
        self.contents: dict[int, bytes] = {}
        self.outcomes: dict[int, object] = {}
        self.dead: list[Stream] = []
        self.machine = ProducerMachine(8, 10**6)
        self.stream: Stream | None = None
        self.key = 0

    def tell(self, outcomes: tuple[RequestOutcome, ...]) -> None:
        for key, result in outcomes:
            before = self.outcomes.get(key)
            if isinstance(before, Produced):
                assert isinstance(result, Produced), "a stored request stays stored"
                assert result.sequence == before.sequence
            else:
                assert before is None or before.cause is FailureCause.UNKNOWN, "a certain failure is told once"
            self.outcomes[key] = result

    @rule(is_bad=st.integers(0, 9).map(lambda number: number == 0))
    def submit(self, is_bad: bool) -> None:
        self.key += 1
        content = b"%s %d" % (b"bad" if is_bad else b"good", self.key)
        if self.machine.requests.has_room(len(content)):
            self.contents[self.key] = content
            self.machine.requests.submit(self.key, content)

    @precondition(lambda self: self.stream is None)
    @rule()
    def connect(self) -> None:
        self.stream = Stream()
        self.machine.connected()

    @precondition(lambda self: self.stream is None)
    @rule()
    def connect_and_write(self) -> None:
        """Begin a stream whose question is answered, and write requests on it."""
        self.connect()
        self.write(1)
        self.serve(1)
        self.deliver(1)
        if self.stream is not None:
            self.write(4)

    @precondition(lambda self: self.stream is not None)
    @rule(most=st.integers(1, 4))
    def write(self, most: int) -> None:
        for _ in range(most):
            request = self.machine.next_write()
            if request is not None:
                self.stream.requests.append((0, b"") if request is QUESTION else (request.number, request.content))

    @precondition(lambda self: self.stream is not None)
    @rule(most=st.integers(1, 4))
    def serve(self, most: int) -> None:
        for _ in range(most):
            self.serve_one(self.stream)

    @precondition(lambda self: self.dead)
    @rule(data=st.data())
    def serve_a_late_copy(self, data: st.DataObject) -> None:
        self.serve_one(data.draw(st.sampled_from(self.dead)))

    @precondition(lambda self: self.stream is not None)
    @rule(kind=PASSING, behind=st.integers(0, 4))
    def refuse_for_now(self, kind: DeclineKind, behind: int) -> None:
        self.serve_one(self.stream, kind)
        for _ in range(behind):
            self.serve_one(self.stream)

    @precondition(lambda self: self.stream is not None)
    @rule()
    def lose_the_answers(self) -> None:
        """Store all that is written, and cut the stream before the answers arrive."""
        self.write(4)
        self.serve(4)
        self.cut(is_graceful=False)

    def serve_one(self, stream: Stream, kind: DeclineKind | None = None) -> None:
        if not stream.requests:
            return
        number, content = stream.requests.popleft()
        last = len(self.stored)
        if stream.is_refused:
            # The server has read the request before it refused the earlier one, and answers no more.
            if number == last + 1 and not content.startswith(b"bad"):
                self.stored.append(content)
            return
        if kind is None and content.startswith(b"bad"):
            kind = DeclineKind.INVALID
        if kind is None and number > last + 1:
            kind = DeclineKind.GAP
        if kind is not None:
            stream.is_refused = True
            stream.answers.append(Declined(number, kind, "refused", last))
            return
        if number == last + 1:
            self.stored.append(content)
        stream.answers.append(Accepted(number or last))

    @precondition(lambda self: self.stream is not None)
    @rule(most=st.integers(1, 4))
    def deliver(self, most: int) -> None:
        for _ in range(most):
            if self.stream is None or not self.stream.answers:
                return
            reaction = self.machine.answered(self.stream.answers.popleft())
            self.tell(reaction.outcomes)
            if reaction.ends:
                self.leave()

    @precondition(lambda self: self.stream is not None)
    @rule(is_graceful=st.booleans())
    def cut(self, is_graceful: bool) -> None:
        self.tell((self.machine.finished() if is_graceful else self.machine.lost("cut")).outcomes)
        self.leave()

    def leave(self) -> None:
        self.dead.append(self.stream)
        self.stream = None

    @precondition(lambda self: self.contents)
    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        outcome = self.machine.expired(data.draw(st.sampled_from(sorted(self.contents))))
        self.tell((outcome,) if outcome else ())

    @rule()
    def await_again(self) -> None:
        self.machine.requests.await_again()

    @rule()
    def restart(self) -> None:
        """Begin another process, once the copies of the earlier one have arrived or are lost."""
        for key in [*self.contents]:
            outcome = self.machine.expired(key)
            self.tell((outcome,) if outcome else ())
        self.dead.clear()
        self.stream = None
        self.machine = ProducerMachine(8, 10**6)

    @invariant()
    def nothing_is_stored_twice_and_the_order_is_kept(self) -> None:
        keys = [int(content.split()[1]) for content in self.stored]
        assert keys == sorted(set(keys))

    @invariant()
    def outcomes_are_true(self) -> None:
        for key, result in self.outcomes.items():
            if isinstance(result, Produced):
                assert self.stored[result.sequence - 1] == self.contents[key]
            elif result.cause is not FailureCause.UNKNOWN:
                assert self.contents[key] not in self.stored

    @invariant()
    def an_honest_site_never_ends_the_producer(self) -> None:
        assert self.machine.end is None

    @invariant()
    def requests_in_doubt_are_the_first_ones(self) -> None:
        doubts = [each.is_doubtful for each in self.machine.requests.numbered]
        assert doubts == sorted(doubts, reverse=True)
        assert all(not each.number for each in self.machine.requests.waiting)

    def teardown(self) -> None:
        """Without further faults, each request of the last process ends, and each accepted content is stored."""
        self.machine.requests.await_again()
        for _ in range(100):
            if not self.machine.has_work():
                break
            if self.stream is None:
                self.connect()
            self.write(4)
            self.serve(4)
            self.deliver(4)
        else:
            raise AssertionError("the requests do not end")
        self.outcomes_are_true()
        self.nothing_is_stored_twice_and_the_order_is_kept()
        assert self.machine.phase in StreamPhase


pytestmark = pytest.mark.long

TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)
