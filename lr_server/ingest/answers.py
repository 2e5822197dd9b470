"""Answer stored requests once a durable tick covers them: on PostgreSQL, whose commits do not wait for the disk."""

import queue
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from discovery.threads import OnEnded, watched
from lr_server.ingest.pending import Pending, settle_all
from lr_server.ingest.unanswered import LOOK, Request, Ticked, Unanswered
from queues.clock import Clock
from queues.errors import LrqError
from queues.send_log.port import LogRow, TickRows
from queues.send_log.producers import Store, StoreOutcome
from queues.words import in_words

#: The most requests of one look.
AT_ONCE: Final = 256
#: The most events that are heard between two looks.
_HEARD: Final = 64


class _Begun:
    """A group of requests begins."""


class _Interrupted:
    """The sequencer begins anew."""


class _Stop:
    """No further event follows."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """A group of requests is stored, with these outcomes."""

    group: Sequence[Pending]
    outcomes: Sequence[StoreOutcome]


_Event = Ticked | _Begun | _Stored | _Interrupted | _Stop


class Answers:
    """Settles requests in a thread of its own, which hears of each tick; one writer thread stores the groups."""

    def __init__(self, store: Store, *, clock: Clock, on_ended: OnEnded) -> None:
        self._store = store
        self._clock = clock
        self._events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self._thread = watched("lrq-ingest-answers", self._run, on_ended)
        self._unanswered = Unanswered()
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
        self._events.put(Ticked(group.tick.branch, group.tick.start_seq, rows))

    def interrupted(self) -> None:
        """Hear that the sequencer begins anew, in its thread, before its next tick."""
        self._events.put(_Interrupted())

    def begin(self) -> None:
        """Hear of a group that is about to be stored."""
        self._events.put(_Begun())

    def answer(self, group: Sequence[Pending], outcomes: Sequence[StoreOutcome]) -> None:
        """Hear of the outcomes of the group; its payloads take no memory while no tick covers them."""
        self._events.put(_Stored([pending.without_entries() for pending in group], outcomes))

    def stop(self, patience: float) -> None:
        """End the thread once all is answered, at most after *patience* seconds; the rest stays without an answer."""
        self._stop_at = self._clock.monotonic() + patience
        self._events.put(_Stop())
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._is_done():
                self._hear()
                self._settle_ready()
                self._look_up()
                self._settle_ready()
                if not self._unanswered:
                    # Ticks have told the rest, so no look will end an earlier trouble.
                    self.trouble = ""
        finally:
            self._unanswered.give_up_all()
            self._settle_ready()

    def _is_done(self) -> bool:
        return self._is_stopping and (not self._unanswered or self._clock.monotonic() >= self._stop_at)

    def _hear(self) -> None:
        """Take the events that wait, because ticks among them may save a look."""
        with suppress(queue.Empty):
            self._take(self._events.get(timeout=self._patience()))
            for _ in range(_HEARD - 1):
                self._take(self._events.get_nowait())

    def _take(self, event: _Event) -> None:
        if isinstance(event, _Begun):
            self._unanswered.begin()
        elif isinstance(event, Ticked):
            self._unanswered.tick(event)
        elif isinstance(event, _Stored):
            self._unanswered.end(event.group, event.outcomes, self._clock.monotonic())
        elif isinstance(event, _Interrupted):
            self._unanswered.interrupt()
        elif isinstance(event, _Stop):
            self._is_stopping = True

    def _settle_ready(self) -> None:
        ready, self._unanswered.ready = self._unanswered.ready, []
        settle_all(ready)

    def _patience(self) -> float | None:
        """Return the longest wait for an event; None while nothing can be looked up, 0 if something is due."""
        if not self._unanswered:
            return None
        return min(max(self._unanswered.next_look - self._clock.monotonic(), 0.0), LOOK)

    def _look_up(self) -> None:
        """Look up some of the requests that are due, together: one look costs hardly less than one for many."""
        now = self._clock.monotonic()
        due = self._unanswered.due(now, AT_ONCE)
        if not due:
            return
        try:
            places = self._store.places([(uncovered.key, uncovered.last) for uncovered in due.values()])
        except LrqError as error:
            self.trouble = in_words(error)
            self._unanswered.next_look = now + LOOK
            return
        self.trouble = ""
        for request, place in zip(due, places, strict=True):
            self._unanswered.find(request, place)


_REQUEST: Callable[[LogRow], Request] = attrgetter("transaction", "request")
