"""The rules of docs/ring.md, one by one."""

from dataclasses import replace

import pytest

from lr_server.protocol.agreement.effects import (
    Alarm,
    Decline,
    Disregard,
    Disregarded,
    KeepPromise,
    KeepRecord,
    KeepTicks,
    Release,
    SendMessage,
    TryAfter,
)
from lr_server.protocol.agreement.events import (
    BeatDue,
    EntriesOffered,
    FollowersUnheard,
    FollowerUnheard,
    LeaderUnheard,
    MessageCame,
    RingEvent,
    TryDue,
)
from lr_server.protocol.agreement.generations import RANKS, leader_of, next_generation
from lr_server.protocol.agreement.history import EMPTY, GenerationStart, TickHistory, TickMark
from lr_server.protocol.agreement.machine import advance
from lr_server.protocol.agreement.messages import (
    Append,
    Ballot,
    CopyRequest,
    Denial,
    Fetch,
    Promise,
    Register,
    Registered,
    Replaced,
    RingMessage,
    StoreCopy,
    Tail,
    TicksHeld,
    TicksMissing,
)
from lr_server.protocol.agreement.record import MemberRecord, StoreId, founders
from lr_server.protocol.agreement.roles import (
    Adopting,
    Fenced,
    Following,
    Leading,
    Newcomer,
    Proposing,
    Retired,
    RingLimits,
    RingMember,
    Role,
    newcomer,
    reopened,
)
from tests.lr_server.protocol.agreement.world import MemberKey, RingWorld

RECORDS = founders([11, 12, 13])
STORES = RECORDS[0].stores
LOG = TickHistory((GenerationStart(2, 1), GenerationStart(3, 4)), 5)


def member(rank: int, role: Role, promised: int = 0, history: TickHistory = EMPTY) -> RingMember:
    return RingMember(replace(RECORDS[rank], promised=promised, history=history), role)


def came(sender: int, message: RingMessage) -> MessageCame:
    return MessageCame(sender, STORES[sender], message)


def led(tokens: int = 1) -> RingWorld:
    """Return a world in which rank 0 leads, and every member hears its leader."""
    world = RingWorld(tokens)
    world.settle()
    return world


# --- R1: rank 2 never leads ---------------------------------------------------------------------------------------


def test_rank_two_never_proposes():
    for role in (Following(), Fenced()):
        _, effects = advance(member(2, role, promised=4, history=LOG), TryDue())
        assert effects == (Disregarded(Disregard.NEVER_LEADS),)


@pytest.mark.parametrize("rank", [0, 1])
def test_no_member_promises_a_generation_to_a_member_that_it_does_not_belong_to(rank: int):
    for generation in range(1, 9):
        after, effects = advance(member(rank, Following()), came(2, Ballot(generation, TickMark(0, 0))))
        assert effects == (Disregarded(Disregard.NOT_ITS_GENERATION),)
        assert after.record.promised == 0


def test_generations_belong_to_the_ranks_zero_and_one_by_turns():
    assert [leader_of(generation) for generation in range(1, 7)] == [1, 0, 1, 0, 1, 0]
    for rank in (0, 1):
        for above in range(9):
            following = next_generation(rank, above)
            assert above < following <= above + 2
            assert leader_of(following) == rank


# --- R2: promises -------------------------------------------------------------------------------------------------


def test_a_promise_is_durable_before_it_is_told():
    after, effects = advance(member(2, Following(), history=LOG), came(0, Ballot(6, LOG.newest)))
    assert effects == (KeepPromise(6), SendMessage(0, Promise(6, LOG)))
    assert after.record.promised == 6


@pytest.mark.parametrize("promised", [7, 8])
def test_a_lower_generation_is_denied(promised: int):
    _, effects = advance(member(2, Following(), promised), came(0, Ballot(6, LOG.newest)))
    assert effects == (SendMessage(0, Denial(6, promised)),)


@pytest.mark.parametrize("role", [Following(), Following(hears=True, is_level=True), Proposing(7), Fenced()])
def test_a_repeated_ballot_gets_the_same_words_and_changes_nothing(role: Role):
    before = member(1, role, promised=6, history=LOG)
    after, effects = advance(before, came(0, Ballot(6, LOG.newest)))
    assert (after, effects) == (before, (SendMessage(0, Promise(6, LOG)),))


def test_a_member_of_an_earlier_version_that_repeats_no_promise_gets_a_higher_number():
    denied, effects = advance(replace(member(0, Proposing(4), promised=2), highest=4), came(1, Denial(4, 4)))
    assert (denied.role, effects) == (Proposing(4), (TryAfter(1),))
    again, _ = advance(denied, TryDue())
    assert again.role == Proposing(6)


@pytest.mark.parametrize("role", [Following(), Proposing(4)])
def test_a_proposal_without_an_answer_keeps_its_number(role: Role):
    unheard, numbers = replace(member(0, role, promised=2, history=LOG), highest=4), set[int]()
    for _ in range(9):
        unheard, effects = advance(unheard, TryDue())
        numbers |= {effect.message.generation for effect in effects}
    assert numbers == {4}


def test_a_proposer_promises_last():
    proposing, effects = advance(member(1, Following(), promised=4), TryDue())
    assert proposing.record.promised == 4
    assert not [effect for effect in effects if isinstance(effect, KeepPromise)]


def test_a_competing_ballot_is_denied_by_rank_zero_and_promised_by_rank_one():
    denied, effects = advance(member(0, Proposing(2)), came(1, Ballot(3, TickMark(0, 0))))
    assert effects == (SendMessage(1, Denial(3, 0)),)
    assert denied.role == Proposing(2)
    promised, _ = advance(member(1, Proposing(3)), came(0, Ballot(2, TickMark(0, 0))))
    assert (promised.role, promised.record.promised) == (Following(), 2)


def test_a_proposer_backs_off_from_a_higher_promise_and_then_asks_for_more():
    after, effects = advance(member(0, Proposing(4), promised=2), came(2, Denial(4, 7)))
    assert (after.role, effects) == (Following(), (TryAfter(1),))
    again, _ = advance(after, TryDue())
    assert again.role == Proposing(8)


# --- R3 to R5: the beginning of a generation ----------------------------------------------------------------------


def test_one_promise_of_another_member_is_needed_and_enough():
    proposing, _ = advance(member(0, Following()), TryDue())
    assert proposing.role == Proposing(2)
    leading, effects = advance(proposing, came(2, Promise(2, EMPTY)))
    assert effects[:2] == (KeepPromise(2), KeepTicks(0, (TickMark(2, 1),)))
    assert isinstance(leading.role, Leading)


def test_the_longest_log_is_the_one_of_the_highest_generation():
    own = TickHistory((GenerationStart(2, 1),), 9)
    proposing = member(1, Proposing(5), promised=2, history=own)
    adopting, effects = advance(proposing, came(2, Promise(5, LOG)))
    assert effects == (KeepPromise(5), SendMessage(2, Fetch(5, TickMark(2, 3))))
    tail = Tail(5, TickMark(2, 3), LOG.after(3, 64))
    leading, effects = advance(adopting, came(2, tail))
    assert effects[0] == KeepTicks(3, LOG.after(3, 64))
    assert leading.record.history == LOG.followed_by((TickMark(5, 6),))


def test_nothing_is_released_and_no_entry_taken_before_the_seal_has_a_follower():
    leading = member(0, Leading(6, 6, (0, 0, 0)), 6, LOG.followed_by((TickMark(6, 6),)))
    after, effects = advance(leading, came(2, TicksHeld(6, LOG.newest)))
    assert not [effect for effect in effects if isinstance(effect, Release)]
    _, effects = advance(after, EntriesOffered())
    assert effects == (Decline(None, "the new generation waits for its first follower"),)
    _, effects = advance(after, came(2, TicksHeld(6, TickMark(6, 6))))
    assert effects == (Release(6),)


# --- R6 and R7: followers -----------------------------------------------------------------------------------------


def test_a_follower_stores_nothing_of_a_lower_generation_and_says_so():
    follower = member(2, Following(hears=True), promised=7, history=LOG)
    after, effects = advance(follower, came(0, Append(6, LOG.newest, (TickMark(6, 6),), TickMark(6, 6), 0)))
    assert effects == (SendMessage(0, Denial(6, 7)),)
    assert after == follower


def test_ticks_are_durable_before_they_are_acknowledged_and_a_later_generation_before_its_ticks():
    append = Append(6, LOG.newest, (TickMark(6, 6),), TickMark(6, 6), 0)
    _, effects = advance(member(2, Following(), promised=3, history=LOG), came(0, append))
    held = SendMessage(0, TicksHeld(6, TickMark(6, 6)))
    assert effects == (KeepPromise(6), KeepTicks(5, (TickMark(6, 6),)), held)


def test_a_released_tick_is_kept_with_an_alarm_and_its_holder_leads_no_more():
    leading = replace(member(1, Leading(3, 4, (5, 0, 0)), 3, LOG), released=5)
    after, effects = advance(leading, came(0, Append(4, TickMark(2, 3), (TickMark(4, 4),), TickMark(4, 4), 0)))
    assert [type(effect) for effect in effects] == [KeepPromise, Alarm]
    assert after.record.history == LOG
    assert isinstance(after.role, Following)


def test_a_founder_with_another_key_is_an_alarm():
    here = member(1, Following())
    message = MessageCame(0, StoreId(1, 99), Ballot(2, TickMark(0, 0)))
    after, effects = advance(here, message)
    assert after == here
    assert isinstance(effects[0], Alarm)
    assert "rank 0 was founded with another key than this member" in effects[0].words


def test_a_member_with_a_leader_is_not_disturbed_by_a_founder_with_another_key():
    here = member(2, Following(hears=True))
    message = MessageCame(1, StoreId(1, 99), Ballot(3, TickMark(0, 0)))
    assert advance(here, message) == (here, (Disregarded(Disregard.OTHER_STORE),))


def test_a_leader_whose_generation_is_over_stops_leading():
    leading = member(0, Leading(2, 1, (0, 0, 0)), 2, TickHistory((GenerationStart(2, 1),), 1))
    after, _ = advance(leading, came(2, Denial(2, 3)))
    assert after.role == Following()


# --- R8: no follower ----------------------------------------------------------------------------------------------


def test_entries_are_refused_without_followers_before_anything_is_stored():
    world = led()
    key = MemberKey(0, 0)
    disk = world.disks[key]
    world.step(key, FollowersUnheard())
    for event in (EntriesOffered(), TryDue(), EntriesOffered()):
        world.step(key, event)
    assert world.disks[key] == disk
    _, effects = advance(member(0, Fenced()), EntriesOffered())
    assert effects == (Decline(None, "both followers of this token are silent"),)


def test_ticks_that_wait_for_a_follower_are_bounded():
    leading = replace(led().members[MemberKey(0, 0)], limits=RingLimits(waiting=3))
    for _ in range(3):
        leading, effects = advance(leading, EntriesOffered())
        assert isinstance(effects[0], KeepTicks)
    _, effects = advance(leading, EntriesOffered())
    assert effects == (Decline(None, "3 ticks wait for a follower"),)


def test_a_lagging_follower_gets_bounded_messages():
    history = TickHistory((GenerationStart(2, 1),), 200)
    leading = member(0, Leading(2, 1, (0, 0, 0)), 2, history)
    seq = 0
    while seq < 200:
        leading, effects = advance(leading, came(1, TicksHeld(2, TickMark(2, seq)) if seq else TicksMissing(2, EMPTY)))
        [append] = [effect.message for effect in effects if isinstance(effect, SendMessage)]
        assert 1 <= len(append.ticks) <= 64
        assert append.ticks[0].seq == seq + 1
        seq = append.ticks[-1].seq


# --- R9: generations only with a cause ----------------------------------------------------------------------------


def test_a_quiet_hour_has_no_new_generation():
    world = led(tokens=2)
    before = {key: record.promised for key, record in world.disks.items()}
    for _ in range(60):
        world.everywhere(BeatDue())
        world.everywhere(TryDue())
        world.everywhere(EntriesOffered())
    assert {key: record.promised for key, record in world.disks.items()} == before
    assert world.released[0].end > 60


def test_a_member_that_hears_its_leader_proposes_nothing():
    _, effects = advance(member(1, Following(hears=True, is_level=True), promised=4), TryDue())
    assert effects == (Disregarded(Disregard.HEARS_LEADER),)
    _, effects = advance(member(0, Following(hears=True), promised=3), TryDue())
    assert effects == (Disregarded(Disregard.NOT_LEVEL),)


def test_only_the_leader_itself_gives_way_to_a_level_rank_zero():
    level = came(0, Ballot(6, LOG.newest))
    leader = replace(member(1, Leading(3, 4, (0, 0, 5)), 3, LOG), released=5)
    follower = replace(member(2, Following(hears=True, is_level=True), 3, LOG), released=5)
    assert advance(leader, level)[1] == (KeepPromise(6), SendMessage(0, Promise(6, LOG)))
    assert advance(follower, level)[1] == (SendMessage(0, Denial(6, 3)),)


def test_a_return_takes_one_generation():
    world = led()
    for rank in RANKS:
        world.step(MemberKey(0, rank), LeaderUnheard())
    world.crash(MemberKey(0, 0).machine)
    world.step(MemberKey(0, 1), TryDue())
    world.deliver_all()
    assert isinstance(world.members[MemberKey(0, 1)].role, Leading)
    promised = world.disks[MemberKey(0, 2)].promised
    world.settle()
    assert list(world.unsettled()) == []
    assert world.disks[MemberKey(0, 2)].promised == promised + 1


# --- stores -------------------------------------------------------------------------------------------------------


def asking() -> RingMember:
    """Return a newcomer that has asked both others to count its store 2."""
    empty = newcomer(2, 20)
    return replace(empty, record=replace(empty.record, stores=(*empty.record.stores[:2], StoreId(2, 20))))


def registered(promised: int, history: TickHistory = EMPTY) -> Registered:
    return Registered(promised, (*STORES[:2], StoreId(2, 20)), history)


def test_a_newcomer_keeps_the_highest_promise_and_the_longest_log_of_both_others():
    one, effects = advance(asking(), came(0, registered(3, LOG)))
    assert effects == ()
    both, effects = advance(one, came(1, registered(7)))
    assert effects == (SendMessage(0, CopyRequest()),)
    copied = StoreCopy(StoreId(2, 20), 3, registered(3).stores, LOG)
    after, effects = advance(both, came(0, copied))
    assert effects == (KeepRecord(MemberRecord(2, registered(3).stores, 7, LOG)),)
    assert after.role == Following()


def test_a_newcomer_takes_no_shorter_copy():
    both, _ = advance(advance(asking(), came(0, registered(3, LOG)))[0], came(1, registered(3)))
    after, effects = advance(both, came(1, StoreCopy(StoreId(2, 20), 3, registered(3).stores, EMPTY)))
    assert (after, effects) == (both, (Disregarded(Disregard.OTHER_COPY),))


def test_a_newcomer_takes_no_copy_of_a_store_that_the_others_do_not_know():
    both, _ = advance(advance(asking(), came(0, registered(3, LOG)))[0], came(1, registered(3)))
    stores = (StoreId(5, 50), STORES[1], StoreId(2, 20))
    after, effects = advance(both, came(0, StoreCopy(StoreId(2, 20), 3, stores, LOG)))
    assert (after, effects) == (both, (Disregarded(Disregard.OTHER_STORE),))


def test_a_newcomer_needs_two_answers_that_know_the_same_stores():
    other = replace(registered(3), stores=(StoreId(5, 50), STORES[1], StoreId(2, 20)))
    after, effects = advance(advance(asking(), came(0, registered(3)))[0], came(1, other))
    assert effects == ()
    assert isinstance(after.role, Newcomer)


def test_messages_of_an_earlier_store_are_refused():
    knows = member(1, Proposing(3))
    knows = replace(knows, record=replace(knows.record, stores=(*STORES[:2], StoreId(2, 20))))
    after, effects = advance(knows, came(2, Promise(3, LOG)))
    assert (after, effects) == (knows, (SendMessage(2, Replaced(StoreId(2, 20))),))


def test_a_twin_of_a_registered_store_is_not_registered():
    after, effects = advance(member(1, Following()), MessageCame(2, StoreId(1, 99), Register(StoreId(1, 99))))
    assert after.record.stores == STORES
    assert effects == (SendMessage(2, Registered(0, STORES, EMPTY)),)


def test_a_store_that_was_replaced_retires_and_one_that_was_not_goes_on():
    for by, role in ((StoreId(2, 20), Retired), (StoreId(1, 99), Following)):
        after, _ = advance(reopened(RECORDS[1]), came(0, Replaced(by)))
        assert isinstance(after.role, role)


# --- everything has an outcome ------------------------------------------------------------------------------------

ROLES = [
    Newcomer(), Following(), Following(hears=True, is_level=True), Proposing(7), Adopting(7, 2, LOG.newest),
    Leading(7, 5, (0, 0, 0)), Fenced(), Retired("it was replaced"),
]  # fmt: skip
MESSAGES = [
    Ballot(8, LOG.newest), Promise(7, LOG), Denial(7, 8), Fetch(6, LOG.newest), Tail(7, LOG.newest, ()),
    Append(8, LOG.newest, (), LOG.newest, 0), TicksHeld(7, LOG.newest), TicksMissing(7, EMPTY),
    Register(StoreId(2, 5)), Registered(3, STORES, LOG), CopyRequest(), StoreCopy(STORES[1], 3, STORES, LOG),
    Replaced(StoreId(2, 5)),
]  # fmt: skip
EVENTS: list[RingEvent] = [
    TryDue(), BeatDue(), LeaderUnheard(), FollowersUnheard(), FollowerUnheard(0), EntriesOffered(),
    *(came(sender, message) for message in MESSAGES for sender in (0, 2)),
]  # fmt: skip


@pytest.mark.parametrize("role", ROLES, ids=lambda role: type(role).__name__)
def test_every_event_has_an_outcome_in_every_state(role: Role):
    for event in EVENTS:
        before = member(1, role, 7, LOG)
        after, effects = advance(before, event)
        if effects and isinstance(effects[0], Disregarded):
            assert (after, len(effects)) == (before, 1)
        if isinstance(role, Retired | Newcomer):
            assert not [effect for effect in effects if isinstance(effect, KeepPromise | KeepTicks | Release)]
