"""The stored requests that wait for the tick which makes them durable. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Final

from lr_server.ingest.pending import Pending, Reply
from lr_server.ingest.storing import reply_for
from queues.positions import Position, PositionToken
from queues.send_log.producers import Last, Place, ProducerKey, StoreOutcome

#: The seconds after which an unanswered request is looked up, because the tick that covers it may not be told.
LOOK: Final = 1.0

#: A request by the id of its transaction, and its number there; None is 0.
Request = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class Ticked:
    """A published tick; `requests` has the one of each row, in order, and is None for a large tick."""

    branch: str
    start_seq: int
    requests: tuple[Request, ...] | None

    def ends(self) -> dict[Request, Position]:
        """Return the place of the last entry of each request."""
        last = dict(zip(self.requests or (), count(self.start_seq + 1), strict=False))
        return {request: Position(self.branch, seq) for request, seq in last.items()}


class Uncovered:
    """The attempts to store one request, which is stored but not in a known tick."""

    __slots__ = ("attempts", "key", "last", "look_at")

    def __init__(self, key: ProducerKey, last: Last, look_at: float) -> None:
        self.key = key
        self.last = last
        #: The time, in `monotonic` seconds, at which the request is to be looked up.
        self.look_at = look_at
        self.attempts: list[tuple[Pending, StoreOutcome]] = []


class Unanswered:
    """Stored requests by their transactions; for one thread."""

    def __init__(self) -> None:
        #: The replies that are known and not passed on yet.
        self.ready: list[tuple[Pending, Reply]] = []
        #: No request is to be looked up before, in `monotonic` seconds.
        self.next_look = math.inf
        self._uncovered: dict[Request, Uncovered] = {}
        # The places in the ticks since the group began that is being stored; None while none is.
        self._recent: dict[Request, Position] | None = None
        # Whether a large tick came, whose only transaction is unknown here.
        self._is_large = False
        # Whether the sequencer began anew during the group that is being stored.
        self._is_interrupted = False
        # Numbers for requests that no tick answers: only a look tells whether the database still has them.
        self._doubted = count(1)

    def __len__(self) -> int:
        """The number of requests that wait."""
        return len(self._uncovered)

    def begin(self) -> None:
        """Hear of a group that is about to be stored: from now on, ticks may cover its requests."""
        self._recent, self._is_large, self._is_interrupted = {}, False, False

    def tick(self, tick: Ticked) -> None:
        """Answer the requests that a durable tick covers."""
        if tick.requests is None:
            self._is_large = True
            self._look_soon()
        if self._recent is None and not self._uncovered:
            return
        ends = tick.ends()
        if self._recent is not None:
            self._recent.update(ends)
        for request, place in ends.items():
            if (covered := self._uncovered.pop(request, None)) is not None:
                self._answer(covered, place)

    def end(self, group: Sequence[Pending], outcomes: Sequence[StoreOutcome], now: float) -> None:
        """Hear of the outcomes of the group that began: a request that no tick covers waits."""
        transactions: dict[str, int] = {}
        recent = self._recent or {}
        for pending, outcome in zip(group, outcomes, strict=True):
            if not outcome.last.token:
                self.ready.append((pending, reply_for(pending, outcome, outcome.position)))
                continue
            request = self._request(outcome.last, transactions)
            if (place := recent.get(request)) is not None:
                self.ready.append((pending, reply_for(pending, outcome, place)))
            else:
                self._wait(request, pending, outcome, now)
        self._recent = None

    def interrupt(self) -> None:
        """Let no tick answer the requests that are stored by now, or belong to the group that is being stored.

        The sequencer begins anew: the database may have lost commits, and may give their transaction ids again.
        """
        self._is_interrupted = True
        self._uncovered = {(-next(self._doubted), None): each for each in self._uncovered.values()}
        self._look_soon()

    def due(self, now: float, most: int) -> Mapping[Request, Uncovered]:
        """Return up to *most* requests that are to be looked up; each is due again after `LOOK` seconds."""
        if now < self.next_look:
            return {}
        due = dict(islice((each for each in self._uncovered.items() if each[1].look_at <= now), most))
        for uncovered in due.values():
            uncovered.look_at = now + LOOK
        if len(due) < most:
            self.next_look = min((each.look_at for each in self._uncovered.values()), default=math.inf)
        return due

    def find(self, request: Request, place: Place) -> None:
        """Hear of a look at *request*: a durable one is answered, and a lost one stays without an answer."""
        if place.is_durable or place.is_lost:
            uncovered = self._uncovered.pop(request)
            if place.is_lost:
                self._give_up(uncovered)
            else:
                self._answer(uncovered, place.position)

    def give_up_all(self) -> None:
        """Leave all requests that wait without an answer."""
        for uncovered in self._uncovered.values():
            self._give_up(uncovered)
        self._uncovered = {}

    def _request(self, last: Last, transactions: dict[str, int]) -> Request:
        """Return the request that was stored last; *transactions* remembers those of the group's tokens."""
        if self._is_interrupted:
            return -next(self._doubted), None
        transaction = transactions.get(last.token)
        if transaction is None:
            transaction = transactions[last.token] = PositionToken.parse(last.token).transaction
        return transaction, last.request or None

    def _wait(self, request: Request, pending: Pending, outcome: StoreOutcome, now: float) -> None:
        uncovered = self._uncovered.get(request)
        if uncovered is None:
            # Requests stored earlier, and those in a large tick, are looked up at once.
            is_new = outcome.verdict.is_new and not self._is_large and not self._is_interrupted
            uncovered = Uncovered(pending.production.key, outcome.last, now + LOOK if is_new else 0.0)
            self.next_look = min(self.next_look, uncovered.look_at)
            self._uncovered[request] = uncovered
        uncovered.attempts.append((pending, outcome))

    def _look_soon(self) -> None:
        for uncovered in self._uncovered.values():
            uncovered.look_at = 0.0
        self.next_look = 0.0

    def _answer(self, uncovered: Uncovered, place: Position | None) -> None:
        self.ready += [(pending, reply_for(pending, outcome, place)) for pending, outcome in uncovered.attempts]

    def _give_up(self, uncovered: Uncovered) -> None:
        self.ready += [(pending, None) for pending, _ in uncovered.attempts]
