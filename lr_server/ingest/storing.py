"""The thread that stores waiting requests, as many as wait in one go."""

import math
from collections.abc import Callable, Sequence
from typing import Final

from discovery.threads import OnEnded, watched
from lr_server.ingest.counters import IngestCounters
from lr_server.ingest.pending import Pending, Reply, settle_all
from lr_server.ingest.refusal import Refusal, refused, stored
from lr_server.ingest.waiting import Waiting
from lr_server.present_trouble import PresentTrouble
from queues.clock import Clock
from queues.errors import LrqError, StoreUnavailableError
from queues.logs import logger
from queues.positions import Position
from queues.send_log.producers import RequestVerdict, Store, StoreOutcome
from queues.wire import ingest_pb2 as pb

log = logger("lrq.ingest")

#: A failure counts as a trouble for so many seconds: without new requests nothing shows that it is over.
FORGOTTEN: Final = 30.0

#: Called with the outcomes of each group that `begin` was called for; both are empty after a failure.
Answer = Callable[[Sequence[Pending], Sequence[StoreOutcome]], None]


_REFUSALS: Final = {
    RequestVerdict.GAP: pb.ProduceRefusal.GAP,
    RequestVerdict.TAKEN: pb.ProduceRefusal.TAKEN,
    RequestVerdict.REFUSED: pb.ProduceRefusal.INVALID,
}


class Storing:
    """Stores groups of requests until `stop`; *answer* passes the outcomes on."""

    def __init__(
        self,
        store: Store,
        waiting: Waiting,
        *,
        begin: Callable[[], None],
        answer: Answer,
        counters: IngestCounters,
        clock: Clock,
        on_ended: OnEnded,
    ) -> None:
        self._store = store
        self._waiting = waiting
        self._begin = begin
        self._answer = answer
        self._counters = counters
        self._clock = clock
        self._thread = watched("lrq-ingest", self._run, on_ended)
        self._trouble = PresentTrouble(
            log, "requests of producers cannot be stored", "requests of producers are stored again"
        )
        self._failed_at = -math.inf

    @property
    def trouble(self) -> str:
        """The reason why nothing can be stored now; empty while all is well, or `FORGOTTEN` after the last failure."""
        is_old = self._clock.monotonic() - self._failed_at >= FORGOTTEN
        return "" if is_old else self._trouble.reason

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self) -> None:
        """Wait until the thread has ended, after the queue is closed."""
        self._thread.join()

    def _run(self) -> None:
        try:
            while group := self._waiting.take():
                self._one(group)
        finally:
            self._store.close()

    def _one(self, group: Sequence[Pending]) -> None:
        self._begin()
        try:
            outcomes = self._store.store([pending.production for pending in group], self._clock.now_us())
        except LrqError as error:
            self._fail(group, error)
            return
        except BaseException:
            # The thread ends, and only repeated requests can tell the outcomes.
            settle_all((pending, None) for pending in group)
            raise
        self._judge(outcomes)
        self._counters.groups.add(1)
        for outcome in outcomes:
            if outcome.verdict in _REFUSALS:
                self._counters.refused(_REFUSALS[outcome.verdict])
        self._answer(group, outcomes)

    def _judge(self, outcomes: Sequence[StoreOutcome]) -> None:
        unknown = next((each for each in outcomes if each.verdict is RequestVerdict.UNKNOWN), None)
        if unknown is None:
            # Questions and repeats write nothing, so their answers do not tell that the database takes requests.
            if any(each.verdict.is_new for each in outcomes):
                self._trouble.end()
            return
        # The producers hear nothing but the end of the stream.
        self._trouble.note(StoreUnavailableError(unknown.reason))
        self._failed_at = self._clock.monotonic()

    def _fail(self, group: Sequence[Pending], error: LrqError) -> None:
        self._trouble.note(error)
        self._failed_at = self._clock.monotonic()
        refusal = Refusal(pb.ProduceRefusal.TRANSIENT, self._trouble.reason)
        for _ in group:
            self._counters.refused(refusal.kind)
        settle_all((pending, refused(pending.production.sequence, refusal)) for pending in group)
        # Otherwise each later tick would be kept for this group.
        self._answer((), ())


def reply_for(pending: Pending, outcome: StoreOutcome, place: Position | None) -> Reply:
    """Return the reply for a durable outcome; None if nothing certain can be said. Pure.

    *place* is that of the last entry of `outcome.last`; None if it is not known any more.
    """
    sequence, last = pending.production.sequence, outcome.last
    match outcome.verdict:
        case RequestVerdict.STORED | RequestVerdict.ASKED:
            return stored(last.sequence, last.token, place)
        case RequestVerdict.REPEATED if sequence == last.sequence:
            return stored(sequence, last.token, place)
        case RequestVerdict.REPEATED:
            return stored(sequence, "", None)
        case RequestVerdict.GAP:
            reason = f"request {sequence} came after request {last.sequence}: send {last.sequence + 1} first"
            return refused(sequence, Refusal(pb.ProduceRefusal.GAP, reason, last.sequence))
        case RequestVerdict.TAKEN:
            reason = (
                f"another process of this producer has stored requests up to {last.sequence}: ask for the last number"
            )
            return refused(sequence, Refusal(pb.ProduceRefusal.TAKEN, reason, last.sequence))
        case RequestVerdict.REFUSED:
            return refused(sequence, Refusal(pb.ProduceRefusal.INVALID, outcome.reason))
        case RequestVerdict.UNKNOWN:
            return None
