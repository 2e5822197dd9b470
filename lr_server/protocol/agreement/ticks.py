"""Ticks from the leader to the followers' disks, and their release. Pure."""

from dataclasses import replace

from lr_server.protocol.agreement.answers import answerable_end, missed_followers
from lr_server.protocol.agreement.effects import (
    Alarm,
    Decline,
    Disregard,
    KeepPromise,
    KeepTicks,
    Release,
    RingEffect,
    SendMessage,
)
from lr_server.protocol.agreement.generations import leader_of
from lr_server.protocol.agreement.history import TickMark
from lr_server.protocol.agreement.messages import Append, Denial, TicksHeld, TicksMissing
from lr_server.protocol.agreement.roles import (
    Fenced,
    Following,
    Leading,
    RingMember,
    RingStep,
    disregarded,
)

# --- the leader -----------------------------------------------------------------------------------------------


def take_entries(member: RingMember) -> RingStep:
    """Store the next tick and send it; refuse the entries wherever they could not be released."""
    role, history = member.role, member.record.history
    if not isinstance(role, Leading):
        return member, (_decline(member),)
    if missed := missed_followers(member):
        return member, (_without(missed),)
    answerable, is_one_enough = answerable_end(member), member.limits.acknowledging == 1
    if answerable < role.seal:
        needed = "its first follower" if is_one_enough else "both followers, as acknowledging_followers is 2"
        return member, (Decline(None, f"the new generation waits for {needed}"),)
    if history.end - answerable >= member.limits.waiting:
        needed = "a follower" if is_one_enough else "both followers"
        return member, (Decline(None, f"{member.limits.waiting} ticks wait for {needed}"),)
    tick = TickMark(role.generation, history.end + 1)
    stored = KeepTicks(history.end, (tick,))
    append = Append(role.generation, history.newest, (tick,), tick, member.released)
    return member.keeping(stored), (stored, *member.to_others(append))


def _decline(member: RingMember) -> Decline:
    match member.role:
        case Following(hears=True):
            leader = leader_of(member.record.promised)
            return Decline(leader, f"rank {leader} leads this token")
        case Fenced():
            return Decline(None, "both followers of this token are silent")
        case _:
            return Decline(None, "this token has no leader now")


def _without(missed: tuple[int, ...]) -> Decline:
    ranks = " and ".join(f"rank {rank}" for rank in missed)
    silent = "is silent" if len(missed) == 1 else "are silent"
    return Decline(None, f"{ranks} of this token {silent}, and acknowledging_followers is 2")


def beat(member: RingMember) -> RingStep:
    """Send each follower the ticks that it has not acknowledged, or a sign of life."""
    if not isinstance(member.role, Leading):
        return disregarded(member, Disregard.LEADS_NOT)
    role = member.role
    others = member.record.others
    return member, tuple(_append(member, role, rank, role.held[rank] or role.seal - 1) for rank in others)


def take_held(member: RingMember, sender: int, answer: TicksHeld) -> RingStep:
    """Release the ticks that this follower has on its disk, once the seal is among them."""
    role = member.role
    if not isinstance(role, Leading) or answer.generation != role.generation:
        return disregarded(member, Disregard.EARLIER)
    upto = answer.upto.seq
    # A silent follower may have another disk than before, so its new word counts, and no earlier one.
    if upto <= role.held[sender] and sender not in role.silent:
        return disregarded(member, Disregard.HELD_ALREADY)
    held = (*role.held[:sender], upto, *role.held[sender + 1 :])
    role = replace(role, held=held, silent=role.silent - {sender})
    member = replace(member, role=role)
    effects: list[RingEffect] = []
    if role.seal <= upto and member.released < upto:
        member = replace(member, released=upto)
        effects.append(Release(upto))
    if upto < member.record.history.end:
        effects.append(_append(member, role, sender, upto))
    return member, tuple(effects)


def take_missing(member: RingMember, sender: int, answer: TicksMissing) -> RingStep:
    """Send a follower the ticks after the last one that both logs hold."""
    role = member.role
    if not isinstance(role, Leading) or answer.generation != role.generation:
        return disregarded(member, Disregard.EARLIER)
    return member, (_append(member, role, sender, member.record.history.common_end(answer.history)),)


def lose_followers(member: RingMember) -> RingStep:
    """Stop leading: without a follower nothing can be released."""
    if not isinstance(member.role, Leading):
        return disregarded(member, Disregard.LEADS_NOT)
    return replace(member, role=Fenced()), ()


def _append(member: RingMember, role: Leading, to: int, after: int) -> SendMessage:
    history = member.record.history
    ticks = history.after(after, member.limits.in_message)
    append = Append(role.generation, history.mark_at(after), ticks, history.newest, member.released)
    return SendMessage(to, append)


# --- a follower -----------------------------------------------------------------------------------------------


def take_append(member: RingMember, sender: int, append: Append) -> RingStep:
    """Store the leader's ticks in place of other ones, and acknowledge them once they are durable.

    Frames of a lower generation than the promised one are denied: so their leader learns that its generation is over.
    """
    generation = append.generation
    if leader_of(generation) != sender:
        return disregarded(member, Disregard.NOT_ITS_GENERATION)
    if generation < member.record.promised:
        return member, (SendMessage(sender, Denial(generation, member.record.promised)),)
    effects: list[RingEffect] = []
    if generation > member.record.promised:
        promise = KeepPromise(generation)
        member = member.keeping(promise)
        effects.append(promise)
    history = member.record.history
    if not history.holds(append.previous):
        missing = SendMessage(sender, TicksMissing(generation, history))
        return replace(member, role=Following(hears=True)), (*effects, missing)
    new = append.ticks[history.first_difference(append.ticks) :]
    if new and new[0].seq <= member.released:
        words = f"rank {sender} has another tick {new[0].seq}, which was released: a store was restored or changed"
        return replace(member, role=Following(hears=True)), (*effects, Alarm(words))
    if new:
        stored = KeepTicks(new[0].seq - 1, new)
        member = member.keeping(stored)
        effects.append(stored)
    upto = append.ticks[-1] if append.ticks else append.previous
    role = Following(hears=True, is_level=member.record.history.newest == append.newest)
    released = max(member.released, min(append.released, upto.seq))
    return replace(member, role=role, released=released), (*effects, SendMessage(sender, TicksHeld(generation, upto)))


def miss_leader(member: RingMember) -> RingStep:
    """Let this member propose, and let it promise other members."""
    if not isinstance(member.role, Following) or not member.role.hears:
        return disregarded(member, Disregard.UNHEARD_ALREADY)
    return replace(member, role=Following()), ()
