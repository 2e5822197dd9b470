"""Answers to producers after one follower or after both, and the entries that a leader takes meanwhile."""

from dataclasses import replace

import pytest

from lr_server.protocol.agreement.answers import answerable_end, may_answer, missed_followers
from lr_server.protocol.agreement.effects import Decline, Disregard, Disregarded, KeepStore, KeepTicks, Release
from lr_server.protocol.agreement.events import EntriesOffered, FollowerUnheard, MessageCame
from lr_server.protocol.agreement.history import GenerationStart, TickHistory, TickMark
from lr_server.protocol.agreement.machine import advance
from lr_server.protocol.agreement.messages import Register, RingMessage, TicksHeld
from lr_server.protocol.agreement.record import StoreId, founders
from lr_server.protocol.agreement.roles import Fenced, Following, Leading, RingLimits, RingMember

#: Rank 0 leads generation 4, whose seal has the number 4.
LOG = TickHistory((GenerationStart(2, 1), GenerationStart(4, 4)), 5)
RECORD = replace(founders([11, 12, 13])[0], promised=4, history=LOG)


def came(sender: int, message: RingMessage) -> MessageCame:
    return MessageCame(sender, RECORD.stores[sender], message)


def leading(*held: int, acknowledging: int = 2, released: int = 5) -> RingMember:
    """Return a leader whose followers have the ticks up to *held*, by rank, and its log with the seal 4."""
    limits = RingLimits(waiting=3, acknowledging=acknowledging)
    return RingMember(RECORD, Leading(4, 4, held), released=released, limits=limits)


@pytest.mark.parametrize(
    ("held", "acknowledging", "end"),
    [((0, 5, 0), 1, 5), ((0, 5, 0), 2, 0), ((0, 5, 4), 2, 4), ((0, 4, 5), 2, 4), ((0, 5, 5), 2, 5)],
)
def test_requests_are_answered_once_enough_followers_have_their_tick(held: tuple, acknowledging: int, end: int):
    leader = leading(*held, acknowledging=acknowledging)
    assert answerable_end(leader) == end
    assert [may_answer(leader, LOG.mark_at(seq)) for seq in (4, 5)] == [end >= 4, end >= 5]
    assert not may_answer(leader, TickMark(2, 4)), "a tick of another generation"


def test_no_request_is_answered_before_the_release_of_its_tick():
    assert answerable_end(leading(0, 5, 5, released=3)) == 3


def test_only_the_leader_knows_that_both_followers_have_a_tick():
    for role in (Following(hears=True), Fenced()):
        assert answerable_end(replace(leading(0, 5, 5), role=role)) == 0


def test_the_release_needs_one_follower_also_where_an_answer_needs_both():
    after, effects = advance(leading(0, 4, 4, released=4), came(2, TicksHeld(4, LOG.newest)))
    assert effects == (Release(5),)
    assert (after.released, answerable_end(after)) == (5, 4)


def test_a_leader_that_needs_both_followers_takes_no_entries_without_one_of_them():
    for rank in (1, 2):
        alone, effects = advance(leading(0, 5, 5), FollowerUnheard(rank))
        assert (effects, missed_followers(alone), answerable_end(alone)) == ((), (rank,), 0)
        _, effects = advance(alone, EntriesOffered())
        assert effects == (Decline(None, f"rank {rank} of this token is silent, and acknowledging_followers is 2"),)
        again, effects = advance(alone, came(rank, TicksHeld(4, LOG.newest)))
        assert (effects, missed_followers(again), answerable_end(again)) == ((), (), 5)
        _, effects = advance(again, EntriesOffered())
        assert isinstance(effects[0], KeepTicks)


def test_the_silence_of_one_follower_matters_only_where_both_must_acknowledge():
    leader = leading(0, 5, 5, acknowledging=1)
    assert advance(leader, FollowerUnheard(1)) == (leader, (Disregarded(Disregard.ONE_IS_ENOUGH),))


def test_a_new_generation_takes_no_entries_before_both_needed_followers_have_its_seal():
    _, effects = advance(leading(0, 5, 0), EntriesOffered())
    words = "the new generation waits for both followers, as acknowledging_followers is 2"
    assert effects == (Decline(None, words),)


def test_ticks_that_wait_for_both_followers_are_bounded():
    leader = leading(0, 5, 5)
    for _ in range(3):
        leader, effects = advance(leader, EntriesOffered())
        leader, _ = advance(leader, came(1, TicksHeld(4, leader.record.history.newest)))
        assert isinstance(effects[0], KeepTicks)
    _, effects = advance(leader, EntriesOffered())
    assert effects == (Decline(None, "3 ticks wait for both followers"),)


def test_a_replaced_disk_counts_for_no_answer_until_the_new_one_acknowledges():
    leader, effects = advance(leading(0, 5, 5), MessageCame(2, StoreId(2, 20), Register(StoreId(2, 20))))
    assert isinstance(effects[0], KeepStore)
    assert (missed_followers(leader), answerable_end(leader)) == ((2,), 0)
    words = MessageCame(2, StoreId(2, 20), TicksHeld(4, TickMark(4, 4)))
    leader, _ = advance(leader, words)
    assert (missed_followers(leader), answerable_end(leader)) == ((), 4)
