"""The storing of requests while this server leads the log: the queue, the thread that stores, and the answers."""

from collections.abc import Callable, Sequence
from typing import Final

from discovery.threads import OnEnded
from lr_server.ingest.answers import Answers
from lr_server.ingest.counters import IngestCounters
from lr_server.ingest.pending import Pending, settle_all
from lr_server.ingest.refusal import Refusal, refused
from lr_server.ingest.storing import Storing, reply_for
from lr_server.ingest.waiting import Room, Waiting
from queues.clock import Clock
from queues.send_log.port import TickRows
from queues.send_log.producers import Store, StoreOutcome
from queues.wire import ingest_pb2 as pb

#: The most requests that wait at a server, and their bytes.
ROOM: Final = Room(16_384, 64 * 1024 * 1024)


class IngestWork:
    """Stores requests from `start` to `stop`; *wake* makes the sequencer look for entries."""

    def __init__(
        self,
        store: Store,
        group: Room,
        *,
        counters: IngestCounters,
        wake: Callable[[], None],
        clock: Clock,
        on_ended: OnEnded,
    ) -> None:
        """Store in *store*, groups of at most *group*."""
        self._wake = wake
        self.waiting = Waiting(ROOM, group, clock)
        self._answers = None if store.is_durable_at_once else Answers(store, clock=clock, on_ended=on_ended)
        self.storing = Storing(
            store,
            self.waiting,
            begin=self._begin,
            answer=self._answer,
            counters=counters,
            clock=clock,
            on_ended=on_ended,
        )

    @property
    def trouble(self) -> str:
        """The reason why requests cannot be stored or answered now; empty while all is well."""
        return self.storing.trouble or ("" if self._answers is None else self._answers.trouble)

    def start(self) -> None:
        """Start the threads."""
        if self._answers is not None:
            self._answers.start()
        self.storing.start()

    def stop(self, reason: str, patience: float) -> None:
        """Refuse the waiting requests, for *reason*, and finish the group that is being stored.

        Wait at most *patience* seconds for the tick that makes stored requests durable.
        """
        refusal = Refusal(pb.ProduceRefusal.TRANSIENT, reason)
        settle_all((pending, refused(pending.production.sequence, refusal)) for pending in self.waiting.close(reason))
        self.storing.join()
        if self._answers is not None:
            self._answers.stop(patience)

    def admit(self, requests: Sequence[Pending]) -> Refusal | None:
        """See `Desk`."""
        if reason := self.waiting.put(requests):
            return Refusal(pb.ProduceRefusal.TRANSIENT if self.waiting.is_closed else pb.ProduceRefusal.FULL, reason)
        return None

    def ticked(self, group: TickRows) -> None:
        """Hear of a durable tick."""
        if self._answers is not None:
            self._answers.ticked(group)

    def interrupted(self) -> None:
        """Hear that the sequencer begins anew."""
        if self._answers is not None:
            self._answers.interrupted()

    def _begin(self) -> None:
        if self._answers is not None:
            self._answers.begin()

    def _answer(self, group: Sequence[Pending], outcomes: Sequence[StoreOutcome]) -> None:
        if any(outcome.verdict.is_new for outcome in outcomes):
            self._wake()
        if self._answers is not None:
            self._answers.answer(group, outcomes)
            return
        settle_all(
            (pending, reply_for(pending, outcome, outcome.position))
            for pending, outcome in zip(group, outcomes, strict=True)
        )
