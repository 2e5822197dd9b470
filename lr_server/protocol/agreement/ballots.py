"""The way to a new generation: ballots, promises and denials. Pure."""

from dataclasses import replace

from lr_server.protocol.agreement.beginnings import adopt_or_begin
from lr_server.protocol.agreement.effects import Disregard, KeepPromise, SendMessage, TryAfter
from lr_server.protocol.agreement.generations import LEADING_RANKS, leader_of, next_generation
from lr_server.protocol.agreement.messages import Ballot, Denial, Promise
from lr_server.protocol.agreement.roles import (
    Adopting,
    Following,
    Leading,
    Proposing,
    RingMember,
    RingStep,
    disregarded,
)


def propose(member: RingMember) -> RingStep:
    """Ask for the next generation of this member, if the member should lead and no better one does.

    A generation begins only at a start, a loss or a return. The proposer itself promises last: a proposal without an
    answer disturbs no generation. Such a proposal is repeated under its number. A higher number would undo the promises
    of others again and again, although this member cannot hear them.
    """
    rank, role = member.record.rank, member.role
    if rank not in LEADING_RANKS:
        return disregarded(member, Disregard.NEVER_LEADS)
    if isinstance(role, Leading):
        return disregarded(member, Disregard.LEADS)
    if isinstance(role, Following) and role.hears:
        if rank > leader_of(member.record.promised):
            return disregarded(member, Disregard.HEARS_LEADER)
        if not role.is_level:
            return disregarded(member, Disregard.NOT_LEVEL)
    generation = next_generation(rank, max(member.record.promised, member.highest - 1))
    ballot = Ballot(generation, member.record.history.newest)
    return replace(member, role=Proposing(generation), highest=generation), member.to_others(ballot)


def answer_ballot(member: RingMember, sender: int, ballot: Ballot) -> RingStep:
    """Promise the generation, durably and then in words, or deny it.

    A ballot of the promised generation is answered by the same words, since the first ones may be lost. Nothing else
    changes: the repetition says nothing new of any leader.
    """
    if leader_of(ballot.generation) != sender:
        return disregarded(member, Disregard.NOT_ITS_GENERATION)
    if ballot.generation == member.record.promised:
        return member, (SendMessage(sender, Promise(ballot.generation, member.record.history)),)
    if ballot.generation < member.record.promised or _prefers_another(member, sender, ballot):
        return member, (SendMessage(sender, Denial(ballot.generation, member.record.promised)),)
    promise = KeepPromise(ballot.generation)
    told = SendMessage(sender, Promise(ballot.generation, member.record.history))
    return replace(member.keeping(promise), role=Following()), (promise, told)


def _prefers_another(member: RingMember, sender: int, ballot: Ballot) -> bool:
    """Return whether a present leader, or this member's own proposal, comes before the ballot.

    The leader itself gives way to a level rank 0. A follower does not: the promise might not reach rank 0, and the
    leader would lose its follower for nothing.
    """
    match member.role:
        case Proposing() | Adopting():
            return sender > member.record.rank
        case Following(hears=True):
            return sender != leader_of(member.record.promised)
        case Leading():
            return sender != LEADING_RANKS[0] or ballot.newest.seq < member.released
        case _:
            return False


def take_promise(member: RingMember, sender: int, promise: Promise) -> RingStep:
    """With the first promise of another member, promise too: two of three members are enough."""
    role = member.role
    if not isinstance(role, Proposing) or promise.generation != role.generation:
        return disregarded(member, Disregard.NO_PROPOSAL)
    own = KeepPromise(role.generation)
    after, effects = adopt_or_begin(member.keeping(own), sender, promise)
    return replace(after, attempt=0), (own, *effects)


def take_denial(member: RingMember, denial: Denial) -> RingStep:
    """Give up a generation that is over; keep asking for one that came too early.

    A member of an earlier version repeats no promise, and denies even the generation that it promised here. So the next
    ballot has a higher number.
    """
    role = member.role
    if not isinstance(role, Proposing | Adopting | Leading) or denial.generation != role.generation:
        return disregarded(member, Disregard.EARLIER)
    attempt = member.attempt + 1
    if denial.promised > role.generation:
        over = replace(member, role=Following(), highest=max(member.highest, denial.promised), attempt=attempt)
        return over, (TryAfter(attempt),)
    if not isinstance(role, Proposing):
        return disregarded(member, Disregard.EARLIER)
    highest = denial.promised + 1 if denial.promised == role.generation else member.highest
    return replace(member, highest=highest, attempt=attempt), (TryAfter(attempt),)
