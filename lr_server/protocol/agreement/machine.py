"""One member of a token as a pure machine: `advance(member, event) -> (member, effects)`.

Every pair of a state and an event has an outcome: an event without effect gives `Disregarded` with the reason. The
invariants R1 to R9 are in docs/ring.md.
"""

from dataclasses import replace
from typing import assert_never

from lr_server.protocol.agreement import answers, ballots, beginnings, newcomers, ticks
from lr_server.protocol.agreement.effects import Alarm, Decline, Disregard, SendMessage
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
from lr_server.protocol.agreement.record import FOUNDED, StoreId
from lr_server.protocol.agreement.roles import Following, Leading, Newcomer, Retired, RingMember, RingStep, disregarded


def advance(member: RingMember, event: RingEvent) -> RingStep:
    """Return the member after *event*, and the effects that the edge carries out, in their order."""
    match event:
        case EntriesOffered() if isinstance(member.role, Newcomer | Retired):
            return member, (Decline(None, "this store does not count"),)
        case _ if isinstance(member.role, Retired):
            return disregarded(member, Disregard.RETIRED)
        case MessageCame(sender=sender, store=store, message=message):
            return _message(member, sender, store, message)
        case TryDue():
            return newcomers.ask(member) if isinstance(member.role, Newcomer) else ballots.propose(member)
        case BeatDue():
            return ticks.beat(member)
        case LeaderUnheard():
            return ticks.miss_leader(member)
        case FollowersUnheard():
            return ticks.lose_followers(member)
        case FollowerUnheard(rank=rank):
            return answers.lose_follower(member, rank)
        case EntriesOffered():
            return ticks.take_entries(member)
        case _:
            assert_never(event)


def _message(member: RingMember, sender: int, store: StoreId, message: RingMessage) -> RingStep:
    if isinstance(member.role, Newcomer):
        return _to_newcomer(member, sender, store, message)
    if isinstance(message, Register):
        return newcomers.answer_register(member, sender, message)
    known = member.record.stores[sender]
    if store.number < known.number:
        return member, (SendMessage(sender, Replaced(known)),)
    if store.number > known.number:
        # A newcomer counts only after both others have written its store: this store has lost that row.
        return _retired(member, f"rank {sender} has a store that this one should know: this one is of a backup")
    if store != known:
        return _of_another_store(member, sender, store, message)
    return _of_known_store(member, sender, message)


def _of_another_store(member: RingMember, sender: int, store: StoreId, message: RingMessage) -> RingStep:
    role = member.role
    knows_leader = isinstance(role, Leading) or (isinstance(role, Following) and role.hears)
    # A leader has a founder on its side, so the member that it sends ticks to is the wrong one.
    if store.number > FOUNDED or (knows_leader and not isinstance(message, Append)):
        return disregarded(member, Disregard.OTHER_STORE)
    # Two founders always know each other, and a newcomer with this number sends only a `Register`.
    words = (
        f"rank {sender} was founded with another key than this member: move the database and the witness of the wrong "
        "one away, and prepare that member again"
    )
    return member, (Alarm(words),)


def _to_newcomer(member: RingMember, sender: int, store: StoreId, message: RingMessage) -> RingStep:
    match message:
        case Registered():
            return newcomers.take_registered(member, sender, store, message)
        case StoreCopy():
            return newcomers.take_copy(member, message)
        case _:
            return disregarded(member, Disregard.NEWCOMER)


def _of_known_store(member: RingMember, sender: int, message: RingMessage) -> RingStep:  # noqa: C901 - one case a message
    match message:
        case Ballot():
            return ballots.answer_ballot(member, sender, message)
        case Promise():
            return ballots.take_promise(member, sender, message)
        case Denial():
            return ballots.take_denial(member, message)
        case Fetch():
            return beginnings.answer_fetch(member, sender, message)
        case Tail():
            return beginnings.take_tail(member, sender, message)
        case Append():
            return ticks.take_append(member, sender, message)
        case TicksHeld():
            return ticks.take_held(member, sender, message)
        case TicksMissing():
            return ticks.take_missing(member, sender, message)
        case CopyRequest():
            return newcomers.answer_copy_request(member, sender)
        case Registered() | StoreCopy() | Register():
            return disregarded(member, Disregard.NO_NEWCOMER)
        case Replaced(by=by):
            if by.number <= member.record.store.number:
                return disregarded(member, Disregard.OTHER_STORE)
            return _retired(member, f"this store was replaced by store {by.number} of its member")
        case _:
            assert_never(message)


def _retired(member: RingMember, reason: str) -> RingStep:
    return replace(member, role=Retired(reason)), (Alarm(reason),)
