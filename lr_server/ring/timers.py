"""The clocks of a member: they say when to try, and release nothing."""

from typing import Final, NamedTuple

from lr_server.protocol.agreement.events import (
    BeatDue,
    FollowersUnheard,
    FollowerUnheard,
    LeaderUnheard,
    RingEvent,
    TryDue,
)
from lr_server.protocol.agreement.messages import Append, TicksHeld, TicksMissing
from lr_server.protocol.agreement.roles import Adopting, Following, Leading, RingMember
from lr_server.ring.edge import RingParcel
from queues.clock import Clock, jittered


class RingPace(NamedTuple):
    """The seconds of the clocks of a member.

    Attributes:
        beat: A leader sends a sign of life, and repeats unanswered messages, this often.
        lease: A follower that hears no leader for so long lets another one lead.
        stall: A leader that hears no follower for so long takes no entries. Where both followers must acknowledge, the
            silence of one is enough.
        retry: The usual time between two tries to lead, or to be counted.
        longest_retry: The longest time between two tries, after denials.
    """

    beat: float = 0.5
    lease: float = 3.0
    stall: float = 5.0
    retry: float = 1.0
    longest_retry: float = 10.0


DEFAULT_PACE: Final = RingPace()
#: A leader sends at least so many signs of life within a lease, and within the stall of its followers.
_BEATS_A_LEASE: Final = 6.0
_BEATS_A_STALL: Final = 3.0
#: A member that may lead tries so often within a lease, and after many denials once in so many leases. So the takeover
#: from a lost leader usually takes less than two leases, also if the first try is denied.
_TRIES_A_LEASE: Final = 4.0
_LONGEST_TRY: Final = 3.0


def pace_of(lease: float, stall: float) -> RingPace:
    """Return the clocks of a member with these settings, in seconds.

    A leader with a long lease sends as many signs of life as one with the usual lease. The lease of a follower may be
    shorter, for example during a change of the settings.
    """
    return RingPace(
        beat=min(lease / _BEATS_A_LEASE, stall / _BEATS_A_STALL, DEFAULT_PACE.beat),
        lease=lease,
        stall=stall,
        retry=lease / _TRIES_A_LEASE,
        longest_retry=lease * _LONGEST_TRY,
    )


class RingTimers:
    """The clocks of one member."""

    def __init__(self, pace: RingPace, clock: Clock, *, is_second: bool = False) -> None:
        self._pace, self._clock = pace, clock
        now = clock.monotonic()
        self._leader_heard = self._beaten = now
        # The times of the followers' last acknowledgements, by rank, since the last beginning of a lead.
        self._heard: dict[int, float] = {}
        # Rank 0 leads by default, so rank 1 waits for it.
        self._retry_at = now + jittered(pace.retry) + (pace.lease if is_second else 0.0)

    def retry_after(self, seconds: float) -> None:
        """Try to lead after a random delay of at most *seconds*."""
        self._retry_at = self._clock.monotonic() + jittered(seconds)

    def pause(self) -> float:
        """Return the seconds until the next look."""
        now = self._clock.monotonic()
        return min(max(min(self._retry_at, self._beaten + self._pace.beat) - now, 0.0), self._pace.beat)

    def due(self, member: RingMember) -> list[RingEvent]:
        """Return the events of the clocks whose time has come."""
        now, found = self._clock.monotonic(), list[RingEvent]()
        role = member.role
        if now >= self._beaten + self._pace.beat:
            self._beaten = now
            if isinstance(role, Leading):
                found.append(BeatDue())
        if isinstance(role, Following) and role.hears and now >= self._leader_heard + self._pace.lease:
            found.append(LeaderUnheard())
        if isinstance(role, Leading):
            found += self._unheard(role, member.limits.acknowledging, now)
        if now >= self._retry_at:
            self.retry_after(self._pace.retry)
            found.append(TryDue())
        return found

    def _unheard(self, role: Leading, acknowledging: int, now: float) -> list[RingEvent]:
        """Return the events of followers that acknowledge nothing any more."""
        late = [rank for rank, heard in sorted(self._heard.items()) if now >= heard + self._pace.stall]
        if late and len(late) == len(self._heard):
            return [FollowersUnheard()]
        return [FollowerUnheard(rank) for rank in late if acknowledging > 1 and rank not in role.silent]

    def note(self, before: RingMember, after: RingMember, parcel: RingParcel | None) -> None:
        """Note the sign of life in *parcel*, and the progress of the member."""
        now = self._clock.monotonic()
        role = after.role
        if isinstance(role, Following) and role.hears and parcel is not None and isinstance(parcel.message, Append):
            self._leader_heard = now
        has_begun = isinstance(role, Leading) and not isinstance(before.role, Leading)
        if has_begun:
            self._heard = dict.fromkeys(after.record.others, now)
        if parcel is not None and isinstance(parcel.message, TicksHeld | TicksMissing) and parcel.sender in self._heard:
            self._heard[parcel.sender] = now
        is_adopting = isinstance(role, Adopting) and after.record != before.record
        if is_adopting or type(role) is not type(before.role):
            # A beginning that goes on is not broken off by another try.
            self._retry_at = max(self._retry_at, now + jittered(self._pace.retry))
