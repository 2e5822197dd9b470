"""The clocks of a leader tell of one silent follower where both must acknowledge, and of both in any case."""

import threading
from dataclasses import replace

import pytest

from lr_server.protocol.agreement.events import FollowersUnheard, FollowerUnheard, RingEvent
from lr_server.protocol.agreement.history import EMPTY, TickMark
from lr_server.protocol.agreement.messages import TicksHeld
from lr_server.protocol.agreement.record import founders
from lr_server.protocol.agreement.roles import Following, Leading, RingLimits, RingMember
from lr_server.ring.edge import RingParcel
from lr_server.ring.timers import RingPace, RingTimers
from queues.clock import SystemClock

SEAL = TickMark(2, 1)
RECORD = replace(founders((1, 2, 3))[0], promised=2, history=EMPTY.followed_by((SEAL,)))
PACE = RingPace(stall=5.0)


class SetClock(SystemClock):
    """Stands still until the test moves it."""

    def __init__(self) -> None:
        self.time = 100.0

    def monotonic(self) -> float:
        return self.time

    def wait(self, event: threading.Event, timeout: float) -> bool:
        raise AssertionError("the clocks of a member never wait")


def leader(acknowledging: int, *silent: int) -> RingMember:
    role = Leading(2, 1, (0, 1, 1), frozenset(silent))
    return RingMember(RECORD, role, released=1, limits=RingLimits(acknowledging=acknowledging))


def silences(timers: RingTimers, member: RingMember) -> list[RingEvent]:
    return [event for event in timers.due(member) if isinstance(event, FollowersUnheard | FollowerUnheard)]


def heard(timers: RingTimers, member: RingMember, rank: int) -> None:
    timers.note(member, member, RingParcel(rank, RECORD.stores[rank], TicksHeld(2, SEAL)))


@pytest.mark.parametrize(("acknowledging", "told"), [(1, []), (2, [FollowerUnheard(2)])])
def test_the_silence_of_one_follower_is_told_where_both_must_acknowledge(acknowledging: int, told: list[RingEvent]):
    clock, member = SetClock(), leader(acknowledging)
    timers = RingTimers(PACE, clock)
    timers.note(replace(member, role=Following()), member, None)
    clock.time += 4.0
    heard(timers, member, 1)
    assert silences(timers, member) == []
    clock.time += 1.0
    assert silences(timers, member) == told
    assert silences(timers, leader(acknowledging, 2)) == []
    heard(timers, member, 2)
    assert silences(timers, member) == []


@pytest.mark.parametrize("acknowledging", [1, 2])
def test_the_silence_of_both_followers_ends_a_lead(acknowledging: int):
    clock, member = SetClock(), leader(acknowledging)
    timers = RingTimers(PACE, clock)
    timers.note(replace(member, role=Following()), member, None)
    clock.time += 5.0
    assert silences(timers, member) == [FollowersUnheard()]
