"""Store the requests of producers through the leader of a token, and tell the outcomes that are on enough disks."""

from bisect import bisect_left
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Final, Protocol

from sqlalchemy import Engine

from lr_server.protocol.agreement.effects import Decline
from lr_server.protocol.agreement.history import TickMark
from queues.clock import SYSTEM_CLOCK, Clock
from queues.database.transactions import reading, writing
from queues.errors import StoreUnavailableError, UsageError
from queues.positions import Position, PositionToken
from queues.send_log.outbox import SourceTransaction
from queues.send_log.port import TickLimits
from queues.send_log.producers import Last, Place, ProducerKey, Production, RequestVerdict, StoreOutcome
from queues.send_log.ring.productions import place_of
from queues.send_log.ring.request_ticks import DecidedRequests, decide_requests
from queues.send_log.ring.tick_productions import TickProduction
from queues.words import in_words

#: The longest time that `RingStore.store` waits for its member, in seconds.
LONGEST_WAIT: Final = 30.0
_LIMITS: Final = TickLimits()


class StoringMember(Protocol):
    """A member of a ring, as `TokenRunner` runs it; for any thread."""

    def declined(self) -> Decline | None:
        """Return why the member takes no entries now; None if it leads and takes them."""
        ...

    def offer(
        self,
        transactions: Sequence[SourceTransaction],
        productions: Sequence[TickProduction] = (),
        after: TickMark | None = None,
    ) -> "Future[TickMark | Decline]":
        """Offer entries for the next tick, which follows the tick *after*; see `TokenRunner`."""
        ...

    def await_answerable(self, tick: TickMark, timeout: float) -> bool:
        """Wait until the tick's requests may be answered; return False if that is not known. See `ReleaseWatch`."""
        ...

    def proves(self, generation: int, timeout: float) -> bool:
        """Return whether the member led *generation* at a moment after the beginning of this call."""
        ...


@dataclass(slots=True)
class _Stored:
    """The ticks of a group that the member has stored, and why it may not have stored the next one."""

    marks: list[TickMark]
    reason: str = ""
    #: Whether the next tick may be stored nevertheless.
    is_unclear: bool = False


class RingStore:
    """See `queues.send_log.producers.Store`. The member declines requests whose decision is older than its log.

    A question for the last number is answered once a follower tells that this member still leads. A leader that is cut
    off might not know the newest request.

    An outcome with a stored request is told once its tick may be answered: see `protocol.agreement.answers`. The same
    holds for a REPEATED one. An outcome is UNKNOWN if the member stopped leading before, took too long, or missed a
    follower. The producer then repeats the request, and the leader of that moment decides.
    """

    is_durable_at_once: Final = True

    def __init__(
        self,
        engine: Engine,
        member: StoringMember,
        limits: TickLimits = _LIMITS,
        *,
        longest_wait: float = LONGEST_WAIT,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Store through *member*, whose file *engine* opens, in ticks within *limits*.

        A call of `store` waits for the member *longest_wait* seconds at most.
        """
        self._engine, self._member, self._limits = engine, member, limits
        self._longest_wait, self._clock = longest_wait, clock

    def store(self, requests: Sequence[Production], created_us: int) -> list[StoreOutcome]:  # noqa: ARG002
        """See the port. The time of the entries is that of their tick.

        Raises `StoreUnavailableError` if the member does not lead, and if it declines the first tick.
        """
        until = self._clock.monotonic() + self._longest_wait
        declined = self._member.declined()
        if declined is not None:
            raise StoreUnavailableError(declined.reason)
        with writing(self._engine) as connection:
            decided = decide_requests(connection, requests, self._limits)
        end = TickMark(decided.end.generation, decided.end.tick.number)
        # The requests of earlier ticks have outcomes only once these ticks are on enough disks.
        if not self._member.await_answerable(end, until - self._clock.monotonic()):
            raise StoreUnavailableError("the last tick of this token is not on enough disks yet: try again")
        stored = self._offer(decided, end, until)
        if decided.ticks and not stored.marks and not stored.is_unclear:
            raise StoreUnavailableError(stored.reason)
        answerable = self._await_all(stored, until)
        return self._proven(self._told(decided, answerable, stored.reason), end.generation, until)

    def places(self, asked: Sequence[tuple[ProducerKey, Last]]) -> list[Place]:
        """See the port. A transaction is durable if its tick is on enough disks, as far as the member knows."""
        with reading(self._engine) as connection:
            found = [place_of(connection, PositionToken.parse(last.token)) for _, last in asked]
        return [Place(is_durable=False) if each is None else self._place(*each) for each in found]

    def close(self) -> None:
        """Do nothing: the store holds no connection."""

    def _place(self, position: Position, tick: tuple[int, int]) -> Place:
        return Place(self._member.await_answerable(TickMark(*tick), 0.0), position)

    def _offer(self, decided: DecidedRequests, end: TickMark, until: float) -> _Stored:
        """Offer the ticks in order; the member declines one that would not follow the one before."""
        stored = _Stored([])
        for tick in decided.ticks:
            offered = self._member.offer(tick.transactions, tick.productions, after=end)
            try:
                answer = offered.result(max(until - self._clock.monotonic(), 0.0))
            except FutureTimeoutError:
                stored.reason = "the member of this token took too long to store the requests"
                stored.is_unclear = not offered.cancel()
                break
            except UsageError:
                raise
            except Exception as error:  # noqa: BLE001 - any error leaves the outcome unknown
                stored.reason, stored.is_unclear = in_words(error), True
                break
            if isinstance(answer, Decline):
                stored.reason = answer.reason
                break
            stored.marks.append(answer)
            end = answer
        return stored

    def _await_all(self, stored: _Stored, until: float) -> int:
        """Return how many of the stored ticks are on enough disks, once no more of them soon will be."""
        for count, mark in enumerate(stored.marks):
            if not self._member.await_answerable(mark, until - self._clock.monotonic()):
                return count
        return len(stored.marks)

    def _proven(self, outcomes: list[StoreOutcome], generation: int, until: float) -> list[StoreOutcome]:
        """Return *outcomes*; those of questions are unknown unless this member proves that it leads *generation*."""
        if all(outcome.verdict is not RequestVerdict.ASKED for outcome in outcomes):
            return outcomes
        if self._member.proves(generation, until - self._clock.monotonic()):
            return outcomes
        unknown = StoreOutcome(RequestVerdict.UNKNOWN, reason="no follower tells that this member leads: ask again")
        return [unknown if outcome.verdict is RequestVerdict.ASKED else outcome for outcome in outcomes]

    def _told(self, decided: DecidedRequests, answerable: int, reason: str) -> list[StoreOutcome]:
        """Return the outcomes of the first *answerable* ticks; an outcome that rests on a later tick is unknown."""
        ends = [tick.end for tick in decided.ticks]
        reason = reason or "the requests are stored, but it is not known whether on enough disks: repeat them"
        return [
            outcome
            if outcome.position is None
            or outcome.position.seq <= decided.end.tick.end_seq
            or bisect_left(ends, outcome.position.seq) < answerable
            else StoreOutcome(RequestVerdict.UNKNOWN, reason=reason)
            for outcome in decided.outcomes
        ]
