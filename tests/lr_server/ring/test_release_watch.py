"""Waits for the release of a tick: they end at the release, with the leader, and after their time."""

import threading
from dataclasses import replace

import pytest

from lr_server.protocol.agreement.effects import Decline
from lr_server.protocol.agreement.history import EMPTY, TickMark
from lr_server.protocol.agreement.record import founders
from lr_server.protocol.agreement.roles import Fenced, Following, Leading, RingLimits, RingMember
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

#: A leader that needs both followers, of which one has the tick.
CAREFUL = replace(LEADER, limits=RingLimits(acknowledging=2), role=Leading(2, 1, (0, 3, 2)), released=3)
CAREFUL_ENDS: dict[str, tuple[RingMember | None, bool]] = {
    "the disk of the second follower": (replace(CAREFUL, role=Leading(2, 1, (0, 3, 3))), True),
    "silence of the second follower": (replace(CAREFUL, role=Leading(2, 1, (0, 3, 2), frozenset({2}))), False),
    "silence of both": (replace(CAREFUL, role=Fenced()), False),
    "another leader": (replace(CAREFUL, role=Following(hears=True)), False),
}


def answers_of(before: RingMember, after: RingMember | None) -> list[bool]:
    """Return the answers of a wait that began with the state *before*, once *after* has come."""
    watch = ReleaseWatch()
    watch.note(before)
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(watch.await_answerable(TICK, 300.0)))
    waiting.start()
    watch.note(before)
    assert answers == []
    watch.note(after)
    waiting.join(60)
    return answers


@pytest.mark.parametrize("end", sorted(ENDS))
def test_a_wait_ends(end: str):
    member, is_released = ENDS[end]
    assert answers_of(LEADER, member) == [is_released]


@pytest.mark.parametrize("end", sorted(CAREFUL_ENDS))
def test_a_wait_for_both_followers_ends(end: str):
    member, is_on_all_disks = CAREFUL_ENDS[end]
    assert answers_of(CAREFUL, member) == [is_on_all_disks]


def test_a_wait_ends_after_its_time():
    watch = ReleaseWatch()
    watch.note(LEADER)
    assert watch.await_answerable(TICK, 0.01) is False
    assert watch.await_answerable(TICK, -1.0) is False


def test_a_leader_declines_nothing_and_other_members_tell_why():
    watch = ReleaseWatch()
    assert watch.declined() == Decline(None, "the member of this token begins again, or has ended")
    watch.note(LEADER)
    assert watch.declined() is None
    watch.note(replace(LEADER, role=Fenced()))
    assert watch.declined() == Decline(None, "both followers of this token are silent")
    watch.note(replace(LEADER, released=0))
    assert watch.declined() == Decline(None, "the new generation waits for its first follower")
