"""Answer stored requests once a durable tick covers them: on PostgreSQL, whose commits do not wait for the disk."""

import math
import queue
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count, islice
from operator import attrgetter
from typing import Final

from discovery.threads import OnEnded, watched
from lr_server.ingest.storing import reply_for
from lr_server.ingest.waiting import Pending
from queues.clock import Clock
from queues.errors import LrqError
from queues.logs import logger
from queues.positions import Position, PositionToken
from queues.send_log.port import LogRow, TickRows
from queues.send_log.producers import Last, Place, ProducerKey, Store, StoreOutcome
from queues.words import in_words

#: The seconds after which an unanswered request is looked up, because the tick that covers it may not be told.
_LOOK: Final = 1.0
#: The most requests that are looked up between two events.
_AT_ONCE: Final = 16

log = logger("lrq.ingest")


#: A request by the id of its transaction, and its number there; None is 0.
_Request = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class _Ticked:
    """A published tick; `requests` has the one of each row, in order, and is None for a large tick."""

    branch: str
    start_seq: int
    requests: tuple[_Request, ...] | None

    def ends(self) -> dict[_Request, Position]:
        """Return the place of the last entry of each request."""
        last = dict(zip(self.requests or (), count(self.start_seq + 1), strict=False))
        return {request: Position(self.branch, seq) for request, seq in last.items()}


class _Begun:
    """A group of requests begins: from now on, ticks may cover them."""


class _Interrupted:
    """The sequencer begins anew: the database may have lost commits, and may give their transaction ids again."""


class _Stop:
    """No further event follows."""


@dataclass(frozen=True, slots=True)
class _Settled:
    """A group of requests is stored, with these outcomes."""

    group: Sequence[Pending]
    outcomes: Sequence[StoreOutcome]


_Event = _Ticked | _Begun | _Settled | _Interrupted | _Stop


class _Unanswered:
    """The attempts to store one request, which is stored but not in a known tick."""

    def __init__(self, key: ProducerKey, last: Last, look_at: float) -> None:
        self.key = key
        self.last = last
        self.look_at = look_at
        self.requests: list[tuple[Pending, StoreOutcome]] = []


class Answers:
    """Settles requests in a thread of its own, which hears of each tick; one writer thread stores the groups."""

    def __init__(self, store: Store, *, clock: Clock, on_ended: OnEnded) -> None:
        self._store = store
        self._clock = clock
        self._events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self._thread = watched("lrq-ingest-answers", self._run, on_ended)
        self._unanswered: dict[_Request, _Unanswered] = {}
        # The places in the ticks since the group began that is being stored; None while none is.
        self._recent: dict[_Request, Position] | None = None
        # Whether a large tick came, whose only transaction is unknown here.
        self._is_large = False
        # Whether the sequencer began anew during the group that is being stored.
        self._is_interrupted = False
        # Numbers for requests that no tick answers: only a look tells whether the database still has them.
        self._doubted = count(1)
        # No request is looked up before, in `monotonic` seconds.
        self._next_look = math.inf
        self._is_stopping = False
        self._stop_at = 0.0
        #: The reason why outcomes cannot be looked up now; empty while all is well.
        self.trouble = ""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def ticked(self, group: TickRows) -> None:
        """Hear of a durable tick, in the thread of the sequencer."""
        rows = None if group.rows is None else tuple(map(_REQUEST, group.rows))
        self._events.put(_Ticked(group.tick.branch, group.tick.start_seq, rows))

    def interrupted(self) -> None:
        """Hear that the sequencer begins anew, in its thread, before its next tick."""
        self._events.put(_Interrupted())

    def begin(self) -> None:
        """Hear of a group that is about to be stored."""
        self._events.put(_Begun())

    def answer(self, group: Sequence[Pending], outcomes: Sequence[StoreOutcome]) -> None:
        """Hear of the outcomes of the group."""
        self._events.put(_Settled(group, outcomes))

    def stop(self, patience: float) -> None:
        """End the thread once all is answered, at most after *patience* seconds; the rest stays without an answer."""
        self._stop_at = self._clock.monotonic() + patience
        self._events.put(_Stop())
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._is_done():
                try:
                    event = self._events.get(timeout=self._patience())
                except queue.Empty:
                    event = None
                self._take(event)
                self._look_up()
                if not self._unanswered:
                    # Ticks have told the rest, so no look will end an earlier trouble.
                    self.trouble = ""
        finally:
            for waiting in self._unanswered.values():
                for pending, _ in waiting.requests:
                    pending.settle(None)

    def _is_done(self) -> bool:
        return self._is_stopping and (not self._unanswered or self._clock.monotonic() >= self._stop_at)

    def _take(self, event: _Event | None) -> None:
        if isinstance(event, _Begun):
            self._recent, self._is_large, self._is_interrupted = {}, False, False
        elif isinstance(event, _Ticked):
            self._tick(event)
        elif isinstance(event, _Settled):
            transactions: dict[str, int] = {}
            for pending, outcome in zip(event.group, event.outcomes, strict=True):
                self._file(pending, outcome, transactions)
            self._recent = None
        elif isinstance(event, _Interrupted):
            self._doubt_all()
        elif isinstance(event, _Stop):
            self._is_stopping = True

    def _doubt_all(self) -> None:
        """Let no tick answer the requests that are stored by now, or belong to the group that is being stored."""
        self._is_interrupted = True
        waiting = list(self._unanswered.values())
        self._unanswered = {(-next(self._doubted), None): each for each in waiting}
        for each in waiting:
            each.look_at = 0.0
        self._next_look = 0.0

    def _tick(self, tick: _Ticked) -> None:
        if tick.requests is None:
            self._is_large = True
            for waiting in self._unanswered.values():
                waiting.look_at = 0.0
            self._next_look = 0.0
        if self._recent is None and not self._unanswered:
            return
        ends = tick.ends()
        if self._recent is not None:
            self._recent.update(ends)
        # The last one first: the stream that waits for the first one then finds all its replies, in one message.
        for request in reversed(ends):
            if (covered := self._unanswered.pop(request, None)) is not None:
                self._settle(covered, ends[request])

    def _file(self, pending: Pending, outcome: StoreOutcome, transactions: dict[str, int]) -> None:
        """Settle a request whose last transaction a tick covers; let others wait for their tick.

        *transactions* remembers those of the group's tokens.
        """
        token = outcome.last.token
        if not token:
            pending.settle(reply_for(pending, outcome, outcome.position))
            return
        transaction = transactions.get(token) or PositionToken.parse(token).transaction
        transactions[token] = transaction
        request = transaction, outcome.last.request or None
        if self._is_interrupted:
            request = -next(self._doubted), None
        waiting = self._unanswered.get(request)
        if waiting is None:
            # Requests stored earlier, and those in a large tick, are looked up at once.
            is_new = outcome.verdict.is_new and not self._is_large and not self._is_interrupted
            waiting = _Unanswered(
                pending.production.key, outcome.last, self._clock.monotonic() + _LOOK if is_new else 0.0
            )
            self._next_look = min(self._next_look, waiting.look_at)
        waiting.requests.append((pending, outcome))
        place = (self._recent or {}).get(request)
        if place is not None:
            self._settle(waiting, place)
        else:
            self._unanswered[request] = waiting

    def _settle(self, waiting: _Unanswered, place: Position | None) -> None:
        for pending, outcome in waiting.requests:
            pending.settle(reply_for(pending, outcome, place))

    def _settle_looked(self, waiting: _Unanswered, place: Place) -> None:
        """Settle requests that are durable; those that are lost stay without an answer, so they are repeated."""
        if not place.is_lost:
            self._settle(waiting, place.position)
            return
        for pending, _ in waiting.requests:
            pending.settle(None)

    def _patience(self) -> float | None:
        """Return the longest wait for an event; None while nothing can be looked up, 0 if something is due."""
        if not self._unanswered:
            return None
        return min(max(self._next_look - self._clock.monotonic(), 0.0), _LOOK)

    def _look_up(self) -> None:
        """Look up some of the requests that are due; one while events wait, because events may tell the rest.

        Each look costs as much as the storing of many requests.
        """
        now = self._clock.monotonic()
        if now < self._next_look:
            return
        most = _AT_ONCE if self._events.empty() else 1
        due = list(islice((each for each in self._unanswered.items() if each[1].look_at <= now), most))
        for request, waiting in due:
            waiting.look_at = now + _LOOK
            try:
                place = self._store.place(waiting.key, waiting.last)
            except LrqError as error:
                self.trouble = in_words(error)
                self._next_look = now + _LOOK
                return
            self.trouble = ""
            if place.is_durable or place.is_lost:
                del self._unanswered[request]
                self._settle_looked(waiting, place)
        if len(due) < most:
            self._next_look = min((each.look_at for each in self._unanswered.values()), default=math.inf)


_REQUEST: Callable[[LogRow], _Request] = attrgetter("transaction", "request")
