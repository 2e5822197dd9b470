"""The beginning of a generation: the longest log of the promised members, then the seal. Pure."""

from dataclasses import replace

from lr_server.protocol.agreement.effects import Disregard, KeepTicks, SendMessage
from lr_server.protocol.agreement.history import TickMark
from lr_server.protocol.agreement.messages import Append, Denial, Fetch, Promise, Tail
from lr_server.protocol.agreement.roles import Adopting, Leading, RingMember, RingStep, disregarded


def adopt_or_begin(member: RingMember, sender: int, promise: Promise) -> RingStep:
    """Take over the log of the member that promised if its log is longer; otherwise begin the generation."""
    own, told = member.record.history, promise.history
    if told.newest <= own.newest:
        return _begin(member, promise.generation)
    fetch = Fetch(promise.generation, own.mark_at(own.common_end(told)))
    role = Adopting(promise.generation, sender, told.newest)
    return replace(member, role=role), (SendMessage(sender, fetch),)


def answer_fetch(member: RingMember, sender: int, fetch: Fetch) -> RingStep:
    """Send the ticks that the new leader lacks; the log stands still while its generation is promised."""
    record = member.record
    if fetch.generation < record.promised:
        return member, (SendMessage(sender, Denial(fetch.generation, record.promised)),)
    if fetch.generation > record.promised or not record.history.holds(fetch.after):
        return disregarded(member, Disregard.NO_PROPOSAL)
    ticks = record.history.after(fetch.after.seq, member.limits.in_message)
    return member, (SendMessage(sender, Tail(fetch.generation, fetch.after, ticks)),)


def take_tail(member: RingMember, sender: int, tail: Tail) -> RingStep:
    """Store the fetched ticks in place of the own ones; begin once the target is there."""
    role, history = member.role, member.record.history
    if not isinstance(role, Adopting) or (tail.generation, sender) != (role.generation, role.source):
        return disregarded(member, Disregard.NO_PROPOSAL)
    known = history.first_difference(tail.ticks)
    new = tail.ticks[known:]
    if not new or not history.holds(tail.after):
        return disregarded(member, Disregard.NOTHING_NEW)
    stored = KeepTicks(new[0].seq - 1, new)
    member = member.keeping(stored)
    newest = member.record.history.newest
    if newest < role.target:
        return member, (stored, SendMessage(sender, Fetch(role.generation, newest)))
    member, effects = _begin(member, role.generation)
    return member, (stored, *effects)


def _begin(member: RingMember, generation: int) -> RingStep:
    """Store the seal and send it; nothing of the generation, and nothing before it, is released without the seal."""
    previous = member.record.history.newest
    seal = TickMark(generation, previous.seq + 1)
    stored = KeepTicks(previous.seq, (seal,))
    role = Leading(generation, seal.seq, (0, 0, 0))
    append = Append(generation, previous, (seal,), seal, member.released)
    return replace(member.keeping(stored), role=role), (stored, *member.to_others(append))
