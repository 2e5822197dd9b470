"""The decisions of a producer: numbers, repeats, refusals. Pure: no clock, no network, no thread.

1. A request gets its number when it is written for the first time, in the order of submission, without gaps.
2. Each stream begins with the question for the last number stored. The answer tells which requests in doubt are stored,
   and the place of the last one. Then all other numbered requests are written again.
3. A request is in doubt once a stream has ended without its answer. A request in doubt keeps its number until it is
   answered.
   So no other request ever takes the number of one that may be stored.
4. After a refusal for now, requests without doubt lose their numbers and wait. The stream has ended with the refusal.
   A server stores in order, so no request behind the refused one was stored. If the refused one is in doubt, it may
   have been stored before. Then all requests on the stream are in doubt.
5. After a refusal for good, the request fails, and all requests behind it are dropped: order is never changed.
6. If the last number falls below an answered one, the site has lost its history. If the last number is above all
   numbers that were written, another process uses the name. So it is with a refusal TAKEN. Each ends the producer.

The requests in doubt are always the first ones of those with numbers. An outcome is told for every request; for one
that is not awaited, `UNKNOWN` was told before.
"""

from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import islice
from typing import Final

from lr_client.producer.answers import (
    PASSING,
    Accepted,
    Declined,
    DeclineKind,
    FailureCause,
    Produced,
    RequestFailure,
    RequestOutcome,
)
from lr_client.producer.requests import QUESTION, PendingRequest, PendingRequests
from queues.positions import ORIGIN

#: A request above this size, in bytes, travels alone, so that a server's limit for messages names the right one.
ALONE_BYTES: Final = 1024 * 1024
#: The highest number of a request; databases have signed numbers of 64 bits.
HIGHEST: Final = 2**63 - 1
_NO_ANSWER: Final = "no server has answered in time"


class StreamPhase(Enum):
    """The state of the stream."""

    CLOSED = auto()
    #: The question for the last number is to be written.
    OPENED = auto()
    #: The question is written.
    ASKING = auto()
    #: The question is answered.
    READY = auto()


@dataclass(frozen=True, slots=True)
class Reaction:
    """The consequences of an event: outcomes to tell, and whether the stream ends now."""

    outcomes: tuple[RequestOutcome, ...] = ()
    ends: bool = False
    leader: str = ""
    is_failure: bool = False


class ProducerMachine:
    """The requests of one producer and all that is known about their numbers."""

    def __init__(self, max_requests: int, max_bytes: int) -> None:
        """Hold at most *max_requests*, and *max_bytes* in all; see `PendingRequests`."""
        self.requests = PendingRequests(max_requests, max_bytes)
        self.phase = StreamPhase.CLOSED
        #: The highest number that the site is known to have stored; None before the first answer.
        self.last_stored: int | None = None
        #: The number after the first answer to a question, which no earlier request of this producer has; 0 before.
        self.first_number = 0
        #: Set once the producer can do nothing more.
        self.end: RequestFailure | None = None
        #: The reason why the last stream ended, and the kind of a refusal, for sentences after a timeout.
        self.trouble = (_NO_ANSWER, DeclineKind.UNSPECIFIED)
        self.questions: list[int] = []
        self._written = 0
        #: Whether the present or last stream has told that a request is stored.
        self.has_stored = False

    def has_work(self) -> bool:
        """Return whether a stream is needed: a request is awaited, or a question."""
        if self.end is not None:
            return False
        return bool(self.questions) or self.requests.are_awaited()

    def ask(self, key: int) -> RequestOutcome | None:
        """Return the last number stored, as the outcome of *key*; None if a stream must ask first."""
        if self.last_stored is not None and not self.requests.numbered:
            return RequestOutcome(key, Produced(self.last_stored, ORIGIN, ""))
        self.questions.append(key)
        return None

    def connected(self) -> None:
        """Begin a stream."""
        self.phase = StreamPhase.OPENED
        self._written = 0
        self.has_stored = False

    def next_write(self) -> PendingRequest | None:
        """Return the next request to write; `QUESTION` for the question, None if nothing is to be written now."""
        if self.phase is StreamPhase.OPENED:
            self.phase = StreamPhase.ASKING
            return QUESTION
        if self.phase is not StreamPhase.READY:
            return None
        upcoming = self.requests.after(self._written)
        if upcoming is None or not self._may_travel(upcoming):
            return None
        if not upcoming.number:
            self.requests.number_next(self._highest() + 1)
        self._written += 1
        return upcoming

    def _may_travel(self, upcoming: PendingRequest) -> bool:
        on_the_way = self._written
        if not on_the_way:
            return True
        return max(len(upcoming.content), len(self.requests.numbered[on_the_way - 1].content)) <= ALONE_BYTES

    def bytes_on_the_way(self) -> int:
        """Return the bytes of the requests that are written on the stream, without an answer."""
        return sum(len(each.content) for each in islice(self.requests.numbered, self._written))

    def answered(self, answer: Accepted | Declined) -> Reaction:
        """Take the next answer of the stream."""
        match self.phase, answer:
            case StreamPhase.ASKING, Accepted():
                return self._learned(answer)
            case StreamPhase.ASKING, Declined():
                return self._question_declined(answer)
            case StreamPhase.READY, _ if self._written and self.requests.numbered[0].number == answer.sequence:
                return self._stored(answer) if isinstance(answer, Accepted) else self._declined(answer)
        return self.lost(f"the server answered number {answer.sequence}, which is not the next one")

    def too_large(self, reason: str) -> Reaction:
        """Take the end of a stream because a message was above the server's limit."""
        if (
            self.phase is StreamPhase.READY
            and self._written == 1
            and len(self.requests.numbered[0].content) > ALONE_BYTES
        ):
            return self.answered(Declined(self.requests.numbered[0].number, DeclineKind.TOO_LARGE, reason))
        return self.lost(reason)

    def finished(self) -> Reaction:
        """Take the end of a stream by the server: no failure if the stream was idle or has stored."""
        is_failure = self.has_work() and not self.has_stored
        return replace(self.lost("the server has ended the stream"), is_failure=is_failure)

    def lost(self, reason: str) -> Reaction:
        """End the stream without an answer; every request with a number is in doubt now."""
        self._close(reason)
        self.requests.doubt()
        return Reaction(ends=True, is_failure=True)

    def expired(self, key: int) -> RequestOutcome | None:
        """Await the request or question *key* no longer; return its outcome, None if that was told before."""
        reason, kind = self.trouble
        if key in self.questions:
            self.questions.remove(key)
            return RequestOutcome(key, RequestFailure(FailureCause.LATE, reason=reason, kind=kind))
        if self.requests.withdraw(key):
            return RequestOutcome(key, RequestFailure(FailureCause.LATE, reason=reason, kind=kind))
        for each in self.requests.numbered:
            if each.key == key and each.is_awaited:
                each.is_awaited = False
                return _unknown(each, reason)
        return None

    def _highest(self) -> int:
        return self.requests.numbered[-1].number if self.requests.numbered else self.last_stored or 0

    def _learned(self, answer: Accepted) -> Reaction:
        """Take the answer to the question: the last number stored, and its place."""
        last = answer.sequence
        if last > HIGHEST - self.requests.max_requests:
            return self.lost(f"the server says that number {last} is stored, which no site stores")
        if self.last_stored is not None:
            if last < self.last_stored:
                return self._ended(
                    FailureCause.HISTORY_LOST, f"it has numbers up to {last}, but answered {self.last_stored}"
                )
            if last > self._highest():
                return self._ended(
                    FailureCause.TAKEN, f"it has number {last}, but this producer sent {self._highest()}"
                )
        self.phase = StreamPhase.READY
        self.last_stored = last
        self.first_number = self.first_number or last + 1
        told = self._shown_as_stored(Produced(last, answer.position, answer.token))
        told += [RequestOutcome(key, Produced(last, ORIGIN, "")) for key in self.questions]
        self.questions.clear()
        return Reaction(tuple(told))

    def _shown_as_stored(self, last: Produced) -> list[RequestOutcome]:
        """End the requests up to *last*: a repeat would not tell the places of the others either."""
        numbered, told = self.requests.numbered, list[RequestOutcome]()
        while numbered and numbered[0].number <= last.sequence:
            request = self.requests.pop_first()
            done = last if request.number == last.sequence else Produced(request.number, ORIGIN, "")
            told.append(RequestOutcome(request.key, done))
        if told:
            self._stored_some()
        return told

    def _stored_some(self) -> None:
        self.has_stored = True
        self.trouble = (_NO_ANSWER, DeclineKind.UNSPECIFIED)

    def _question_declined(self, answer: Declined) -> Reaction:
        if answer.kind in PASSING or answer.kind is DeclineKind.GAP:
            return self._refused_for_now(answer)
        if answer.kind is DeclineKind.TAKEN:
            return self._ended(FailureCause.TAKEN, answer.reason)
        self.lost(answer.reason)
        failed = [RequestOutcome(key, _refusal(answer)) for key in self.questions]
        failed += [RequestOutcome(each.key, _refusal(answer)) for each in self.requests.waiting]
        for each in self.requests.numbered:
            if each.is_awaited:
                each.is_awaited = False
                failed.append(_unknown(each, answer.reason))
        self.questions.clear()
        self.requests.forget_waiting()
        return Reaction(tuple(failed), ends=True, is_failure=True)

    def _stored(self, answer: Accepted) -> Reaction:
        request = self.requests.pop_first()
        self._written -= 1
        self._stored_some()
        self.last_stored = max(self.last_stored or 0, request.number)
        done = Produced(request.number, answer.position, answer.token)
        return Reaction((RequestOutcome(request.key, done),))

    def _declined(self, answer: Declined) -> Reaction:
        known = self.last_stored or 0
        if answer.kind is DeclineKind.GAP and answer.last_sequence < known:
            return self._ended(
                FailureCause.HISTORY_LOST, f"it has numbers up to {answer.last_sequence}, but answered {known}"
            )
        if answer.kind in PASSING or answer.kind is DeclineKind.GAP:
            return self._refused_for_now(answer)
        if answer.kind is DeclineKind.TAKEN:
            return self._ended(FailureCause.TAKEN, answer.reason)
        refused, *behind = [*self.requests.numbered, *self.requests.waiting]
        dropped = f"request {refused.number} before it was refused: {answer.reason}"
        told = [RequestOutcome(refused.key, _refusal(answer))]
        told += [RequestOutcome(each.key, RequestFailure(FailureCause.DROPPED, reason=dropped)) for each in behind]
        self.requests.forget_all()
        self._close(_NO_ANSWER)
        return Reaction(tuple(told), ends=True)

    def _refused_for_now(self, answer: Declined) -> Reaction:
        self._unnumber(answer)
        return Reaction(ends=True, leader=answer.leader, is_failure=True)

    def _unnumber(self, answer: Declined) -> None:
        """End the stream after a refusal: requests without doubt wait again."""
        self._close(answer.reason, answer.kind)
        self.requests.unnumber()

    def _close(self, reason: str, kind: DeclineKind = DeclineKind.UNSPECIFIED) -> None:
        self.phase = StreamPhase.CLOSED
        self._written = 0
        self.trouble = (reason, kind)

    def _ended(self, cause: FailureCause, reason: str) -> Reaction:
        self._close(reason)
        self.end = RequestFailure(cause, reason=reason)
        told = [RequestOutcome(key, self.end) for key in self.questions]
        told += [
            RequestOutcome(each.key, RequestFailure(cause, each.number, reason)) for each in self.requests.numbered
        ]
        told += [RequestOutcome(each.key, self.end) for each in self.requests.waiting]
        self.questions.clear()
        self.requests.forget_all()
        return Reaction(tuple(told), ends=True)


def _refusal(answer: Declined) -> RequestFailure:
    return RequestFailure(FailureCause.REFUSED, answer.sequence, answer.reason, answer.kind)


def _unknown(request: PendingRequest, reason: str) -> RequestOutcome:
    return RequestOutcome(request.key, RequestFailure(FailureCause.UNKNOWN, request.number, reason))
