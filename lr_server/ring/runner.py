"""One member of a token with its clocks, in a thread of its own."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Final, Protocol

from discovery.ring_status import RingStatus
from lr_server.present_trouble import PresentTrouble
from lr_server.protocol.agreement.effects import Decline
from lr_server.protocol.agreement.history import TickMark
from lr_server.protocol.agreement.roles import DEFAULT_LIMITS, RingLimits, RingMember
from lr_server.ring.edge import MemberEdge, RingParcel
from lr_server.ring.fenced_since import FencedSince
from lr_server.ring.lead_proof import LeadProof
from lr_server.ring.member_state import is_well_again, led_generation, status_of
from lr_server.ring.offers import Offer, OfferedEntries
from lr_server.ring.parcel_box import ParcelBox
from lr_server.ring.release_watch import ReleaseWatch
from lr_server.ring.store import TokenStore
from lr_server.ring.timers import DEFAULT_PACE, RingPace, RingTimers
from queues.clock import SYSTEM_CLOCK, Clock, jittered
from queues.errors import DataLossError, StoreTakenError, StoreUnavailableError, UsageError
from queues.logs import logger
from queues.send_log.outbox import SourceTransaction
from queues.send_log.ring.log_base import LogBase, StoredRequest
from queues.send_log.ring.tick_contents import TickContent, weight_of
from queues.send_log.ring.tick_productions import TickProduction
from queues.words import in_words

log = logger("lrq.ring")

#: The most ticks in one answer to a newcomer.
_PULLED: Final = 64
#: A member that has lived for so many seconds was well. The log then tells its next end, also for the same reason.
_WELL: Final = 60.0


class MemberLink(Protocol):
    """The way to one other member."""

    def send(self, parcel: RingParcel) -> None:
        """Send the parcel, or lose it. Never waits."""
        ...

    def pull(self, after: int) -> Sequence[TickContent]:
        """Return the next ticks of the other member after number *after*; raise `LrqError`."""
        ...

    def pull_base(self) -> LogBase:
        """Return the beginning of the other member's trimmed log; raise `LrqError`."""
        ...

    def pull_requests(self, after: int, upto: int) -> Sequence[StoredRequest]:
        """Return the next requests of the other member between two entries; raise `LrqError`."""
        ...

    def look(self) -> RingStatus:
        """Return the state of the other member now; raise `LrqError` if it does not tell."""
        ...


class TokenRunner:
    """One member, which runs from `start` to `stop`. An error of its store ends the member and begins it again."""

    def __init__(
        self,
        open_store: Callable[[], TokenStore],
        rank: int,
        links: Mapping[int, MemberLink],
        *,
        pace: RingPace = DEFAULT_PACE,
        limits: RingLimits = DEFAULT_LIMITS,
        release: Callable[[int], None] = lambda _: None,
        trims: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Each beginning opens a store; *links* leads to the others, and *release* gets each new released end.

        With *trims*, a follower trims its log as far as the leader does.
        """
        self.rank = rank
        self._open_store = open_store
        self._links = links
        self._pace, self._limits, self._clock = pace, limits, clock
        self._released, self._trims = release, trims
        #: The number of the newest trimmed tick, as far as the member knows.
        self.trimmed = 0
        self._box: ParcelBox[RingParcel | Offer] = ParcelBox()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lrq-ring-{rank}", daemon=True)
        self._store: TokenStore | None = None
        self._timers = RingTimers(pace, clock)
        self._watch = ReleaseWatch()
        self._fenced = FencedSince(clock)
        self._proof = LeadProof(lambda: list(links.values()), clock)
        #: The words for an operator; empty without any, and once the member is well again.
        self.alarm_words = ""
        # The last alarm about another process with the store.
        self._taken_words = ""
        # On a full disk a member begins again each moment, and the log tells that once.
        self._trouble = PresentTrouble(log.bind(rank=rank), "a member of the ring begins again")
        # Why the member is closed now.
        self._closed_by = ""

    def start(self) -> None:
        """Begin the member."""
        self._thread.start()

    def stop(self) -> None:
        """End the member after its step. Offers that still wait are declined."""
        self._stopping.set()
        for item in self._box.close():
            if isinstance(item, Offer):
                item.decline()
        if self._thread.ident is not None:
            self._thread.join()

    def receive(self, parcel: RingParcel) -> bool:
        """Take the parcel of another member, or lose it and return False. Never waits."""
        return self._box.put(parcel, sum(map(weight_of, parcel.contents)))

    @property
    def member(self) -> RingMember | None:
        """The state of the member after its last step; None while it begins again."""
        return self._watch.member

    def offer(
        self,
        transactions: Sequence[SourceTransaction],
        productions: Sequence[TickProduction] = (),
        after: TickMark | None = None,
    ) -> "Future[TickMark | Decline]":
        """Offer entries for the next tick. The result is the tick, which is stored here and released later, or why not.

        *productions* and *after* are those of `OfferedEntries`. An error as the result leaves the outcome unknown.
        """
        offer = Offer(OfferedEntries(transactions, productions, after), Future())
        if not self._box.put(offer):
            offer.decline()
        return offer.outcome

    def declined(self) -> Decline | None:
        """See `ReleaseWatch`."""
        return self._watch.declined()

    def await_answerable(self, tick: TickMark, timeout: float) -> bool:
        """See `ReleaseWatch`."""
        return self._watch.await_answerable(tick, timeout)

    def proves(self, generation: int, timeout: float) -> bool:
        """Return whether this member led *generation* at a moment after the beginning of this call.

        Then every tick that was released before the call is in the log here. The call waits *timeout* seconds at most,
        and a False proves nothing.
        """
        return self._proof(generation, timeout) and led_generation(self.member) == generation

    @property
    def status(self) -> RingStatus:
        """The state of the member now."""
        member = self.member
        words = self.alarm_words or ("" if member is not None else self._closed_by)
        return replace(status_of(member, self.rank, words, self.trimmed), fenced_us=self._fenced.us)

    def read(self, after: int) -> Sequence[TickContent]:
        """Return the next ticks after number *after*."""
        return self._open.read(after, _PULLED)

    def read_base(self) -> LogBase:
        """Return the beginning of the trimmed log."""
        return self._open.read_base()

    def read_requests(self, after: int, upto: int) -> Sequence[StoredRequest]:
        """Return the next requests of producers between two entries."""
        return self._open.read_requests(after, upto)

    @property
    def _open(self) -> TokenStore:
        store = self._store
        if store is None:
            raise StoreUnavailableError("the store of this token is not open")
        return store

    # --- the surroundings of the member -----------------------------------------------------------------------

    def send(self, to: int, parcel: RingParcel) -> None:
        """See `Surroundings`."""
        self._links[to].send(parcel)

    def pull(self, rank: int, after: int) -> Sequence[TickContent]:
        """See `Surroundings`."""
        return self._links[rank].pull(after)

    def pull_base(self, rank: int) -> LogBase:
        """See `Surroundings`."""
        return self._links[rank].pull_base()

    def pull_requests(self, rank: int, after: int, upto: int) -> Sequence[StoredRequest]:
        """See `Surroundings`."""
        return self._links[rank].pull_requests(after, upto)

    def release(self, upto: int) -> None:
        """See `Surroundings`."""
        self._released(upto)

    def try_after(self, attempt: int) -> None:
        """See `Surroundings`."""
        self._timers.retry_after(min(self._pace.retry * 2.0 ** min(attempt, 16), self._pace.longest_retry))

    def alarm(self, words: str) -> None:
        """See `Surroundings`."""
        if words != self.alarm_words:
            log.error("a member of the ring needs an operator", rank=self.rank, reason=words)
        self.alarm_words = words

    # --- the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            began = self._clock.monotonic()
            try:
                self._live()
            except StoreTakenError as error:
                self.alarm(str(error))
                self._taken_words = self.alarm_words
            except DataLossError as error:
                self.alarm(str(error))
            except Exception as error:  # noqa: BLE001 - after any error the member begins again
                self._closed_by = in_words(error)
                if self._clock.monotonic() - began >= _WELL:
                    self._trouble.end()
                self._trouble.note(error)
            finally:
                self._show(None)
                if self._store is not None:
                    self._store.close()
                    self._store = None
            self._clock.wait(self._stopping, jittered(self._pace.retry))

    def _live(self) -> None:
        self._store = self._open_store()
        self._closed_by = ""
        if self.alarm_words == self._taken_words:
            # The other process has ended, as after a quick start of this one.
            self.alarm_words = ""
        if self._store.doubt is not None:
            self.alarm(f"the store of this token begins as a newcomer: {self._store.doubt}")
        edge = MemberEdge(self._store, self.rank, self, limits=self._limits, trims=self._trims, clock=self._clock)
        self.trimmed = edge.trimmed
        self._show(edge.member)
        self._timers = RingTimers(self._pace, self._clock, is_second=self.rank > 0)
        while not self._stopping.is_set():
            for event in self._timers.due(edge.member):
                edge.post(event)
                self._note(edge, None)
            item = self._box.get(self._timers.pause())
            if isinstance(item, Offer):
                self._answer(edge, item)
                self._note(edge, None)
            elif item is not None:
                edge.receive(item)
                self._note(edge, item)

    def _answer(self, edge: MemberEdge, offer: Offer) -> None:
        if not offer.outcome.set_running_or_notify_cancel():
            return
        try:
            offer.outcome.set_result(edge.offer(*offer.entries))
        except UsageError as error:
            offer.outcome.set_exception(error)
        except BaseException as error:
            offer.outcome.set_exception(error)
            raise

    def _note(self, edge: MemberEdge, parcel: RingParcel | None) -> None:
        before = self.member
        assert before is not None
        self.trimmed = edge.trimmed
        if is_well_again(before, edge.member):
            self.alarm_words = ""
        self._show(edge.member)
        self._timers.note(before, edge.member, parcel)

    def _show(self, member: RingMember | None) -> None:
        self._watch.note(member)
        self._fenced.note(member)
