"""Waits for the release of a tick: they end at the release, with the leader, and after their time."""

import threading
from dataclasses import replace

import pytest

from lr_server.protocol.agreement.effects import Decline
from lr_server.protocol.agreement.history import EMPTY, TickMark
from lr_server.protocol.agreement.record import founders
from lr_server.protocol.agreement.roles import Fenced, Following, Leading, RingMember
from lr_server.ring.release_watch import ReleaseWatch

TICK = TickMark(2, 3)
RECORD = replace(founders((1, 2, 3))[0], promised=2, history=EMPTY.followed_by((TickMark(2, 1), TickMark(2, 2), TICK)))
LEADER = RingMember(RECORD, Leading(2, 1, (0, 0, 0)), released=2)
OTHER_TAIL = replace(RECORD, promised=3, history=EMPTY.followed_by((TickMark(2, 1), TickMark(2, 2), TickMark(3, 3))))

ENDS: dict[str, tuple[RingMember | None, bool]] = {
    "the release": (replace(LEADER, released=3), True),
    "the release of a later tick": (replace(LEADER, released=4), True),
    "the release and another role": (replace(LEADER, released=3, role=Following()), True),
    "silent followers": (replace(LEADER, role=Fenced()), False),
    "another leader": (replace(LEADER, role=Following(hears=True)), False),
    "another tick of the same number": (RingMember(OTHER_TAIL, Following(), released=3), False),
    "a later generation of the same member": (replace(LEADER, role=Leading(4, 4, (0, 0, 0))), False),
    "the end of the member": (None, False),
}


@pytest.mark.parametrize("end", sorted(ENDS))
def test_a_wait_ends(end: str):
    member, is_released = ENDS[end]
    watch = ReleaseWatch()
    watch.note(LEADER)
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(watch.await_release(TICK, 300.0)))
    waiting.start()
    watch.note(LEADER)
    assert answers == []
    watch.note(member)
    waiting.join(60)
    assert answers == [is_released]


def test_a_wait_ends_after_its_time():
    watch = ReleaseWatch()
    watch.note(LEADER)
    assert watch.await_release(TICK, 0.01) is False
    assert watch.await_release(TICK, -1.0) is False


def test_a_leader_declines_nothing_and_other_members_tell_why():
    watch = ReleaseWatch()
    assert watch.declined() == Decline(None, "the member of this token begins again, or has ended")
    watch.note(LEADER)
    assert watch.declined() is None
    watch.note(replace(LEADER, role=Fenced()))
    assert watch.declined() == Decline(None, "both followers of this token are silent")
    watch.note(replace(LEADER, released=0))
    assert watch.declined() == Decline(None, "the new generation waits for its first follower")
