"""Three members in memory with their real clocks, in a time that the test moves; each direction can be cut."""

import heapq
import threading
from collections.abc import Callable, Iterable
from itertools import count, pairwise

from lr_server.protocol.agreement.effects import RingEffect, TryAfter
from lr_server.protocol.agreement.events import EntriesOffered
from lr_server.protocol.agreement.generations import RANKS
from lr_server.protocol.agreement.roles import Leading
from lr_server.ring.edge import RingParcel
from lr_server.ring.timers import RingPace, RingTimers
from queues.clock import SystemClock
from tests.lr_server.protocol.agreement.world import Envelope, MemberKey, RingWorld

#: The clocks of a server with the default settings.
PACE = RingPace(beat=0.5, lease=3.0, stall=5.0, retry=0.75, longest_retry=9.0)
#: The seconds of a message on its way, with the write to the disk before it.
_WAY = 0.01
#: The seconds between two looks at the clocks, and between two offers of entries.
_LOOK, _OFFER = 0.02, 0.1


class MovedClock(SystemClock):
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wait(self, event: threading.Event, timeout: float) -> bool:
        raise AssertionError("the clocks of a member never wait")


class TimedRing(RingWorld):
    """One token, whose members try, beat and miss each other as their clocks say; each step is checked.

    `leads` are the generations that released a tick, in their order. `releases` are the times of releases.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.clock = MovedClock()
        self.timers = {rank: RingTimers(PACE, self.clock, is_second=rank > 0) for rank in RANKS}
        self.leads: list[int] = []
        self.releases: list[float] = [0.0]
        self._on_the_way: list[tuple[float, int, Envelope]] = []
        self._order = count()
        self._offer_at = 0.0

    @property
    def promised(self) -> int:
        """The highest promise of a member."""
        return max(member.record.promised for member in self.of_token(0))

    def cut_ways(self, ways: Iterable[tuple[int, int]]) -> None:
        """Lose the messages from one rank to another; the ranks of token 0 are the machines."""
        self.cuts = set(ways)

    def rest(self, seconds: float) -> None:
        """Let time pass without entries."""
        self._offer_at = self.clock.now + seconds
        self.let(seconds)

    def let(self, seconds: float) -> None:
        """Let time pass, while producers offer entries to every leader."""
        until = self.clock.now + seconds
        while self.clock.now < until:
            self.clock.now += _LOOK
            self._arrive()
            for rank in RANKS:
                for event in self.timers[rank].due(self.members[MemberKey(0, rank)]):
                    self._stepped(rank, lambda key, event=event: self.step(key, event))
            if self.clock.now >= self._offer_at:
                self._offer_at = self.clock.now + _OFFER
                for rank in RANKS:
                    self._stepped(rank, lambda key: self.step(key, EntriesOffered()))

    def longest_standstill(self, since: float) -> float:
        """Return the longest time without a release after the time *since*."""
        times = [since, *(time for time in self.releases if time > since), self.clock.now]
        return max(later - time for time, later in pairwise(times))

    def _arrive(self) -> None:
        while self._on_the_way and self._on_the_way[0][0] <= self.clock.now:
            _, _, (to, came) = heapq.heappop(self._on_the_way)
            parcel = RingParcel(came.sender, came.store, came.message)
            self._stepped(to.rank, lambda key, came=came: self.step(key, came), parcel)

    def _stepped(self, rank: int, step: Callable[[MemberKey], object], parcel: RingParcel | None = None) -> None:
        key = MemberKey(0, rank)
        before = self.members[key]
        step(key)
        self.timers[rank].note(before, self.members[key], parcel)

    def _send(self, key: MemberKey, envelope: Envelope) -> None:
        if (key.machine, envelope.to.machine) not in self.cuts:
            heapq.heappush(self._on_the_way, (self.clock.now + _WAY, next(self._order), envelope))

    def _carry_out(self, key: MemberKey, effect: RingEffect) -> None:
        super()._carry_out(key, effect)
        if isinstance(effect, TryAfter):
            delay = min(PACE.retry * 2.0 ** min(effect.attempt, 16), PACE.longest_retry)
            self.timers[key.rank].retry_after(delay)

    def _release(self, key: MemberKey, upto: int) -> None:
        super()._release(key, upto)
        self.releases.append(self.clock.now)
        role = self.members[key].role
        if isinstance(role, Leading) and self.leads[-1:] != [role.generation]:
            self.leads.append(role.generation)
