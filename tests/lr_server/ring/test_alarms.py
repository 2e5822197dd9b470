"""The alarms of a member reach an operator, and end once the member is well again."""

from dataclasses import replace

import pytest

from discovery.ring_status import RingStatus
from lr_server.protocol.agreement.effects import Alarm
from lr_server.protocol.agreement.events import MessageCame
from lr_server.protocol.agreement.history import EMPTY, GenerationStart, TickHistory, TickMark
from lr_server.protocol.agreement.machine import advance
from lr_server.protocol.agreement.messages import Append
from lr_server.protocol.agreement.record import StoreId, founders
from lr_server.protocol.agreement.roles import Following, Leading, Newcomer, RingMember, Role
from lr_server.ring.member_state import is_well_again, status_of

RECORD = replace(founders((1, 2, 3))[1], promised=2)
LEVEL = Following(hears=True, is_level=True)
LEADING = Leading(2, 1, (0, 0, 0))


def member(role: Role) -> RingMember:
    return RingMember(RECORD, role)


@pytest.mark.parametrize(
    ("before", "after", "is_well"),
    [
        (Newcomer(), Following(), False),
        (Following(), Following(hears=True), False),
        (Following(), LEVEL, True),
        (LEVEL, LEVEL, False),
        (LEVEL, Following(), False),
        (Following(), LEADING, True),
        (LEADING, LEADING, False),
    ],
)
def test_an_alarm_ends_once_the_member_leads_or_becomes_level(before: Role, after: Role, is_well: bool):
    assert is_well_again(member(before), member(after)) is is_well


def test_an_alarm_about_another_member_ends_with_its_new_store():
    stores = (*RECORD.stores[:2], StoreId(2, 9))
    assert is_well_again(member(LEVEL), RingMember(replace(RECORD, stores=stores), LEVEL))


def test_a_follower_with_a_contradiction_is_a_trouble():
    log = EMPTY.followed_by((TickMark(2, 1), TickMark(2, 2)))
    here = RingMember(replace(RECORD, history=log), LEVEL, released=2)
    other = TickHistory((GenerationStart(2, 1), GenerationStart(4, 2)), 2)
    append = Append(4, TickMark(2, 1), (TickMark(4, 2),), other.newest, 2)
    after, effects = advance(here, MessageCame(0, RECORD.stores[0], append))
    alarm = next(effect for effect in effects if isinstance(effect, Alarm))
    assert not is_well_again(here, after)
    status = status_of(after, 1, alarm.words)
    assert status.leader == 0
    assert "has another tick 2, which was released" in status.trouble


def test_a_leader_that_takes_entries_is_no_trouble_with_an_alarm_about_another():
    assert RingStatus(0, "leading", 2, 0, alarm="rank 2 lacks ticks").trouble == ""
