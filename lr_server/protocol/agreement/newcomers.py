"""A store that is empty or restored counts again once it holds all that its earlier store may have held. Pure.

The earlier store's promises and acknowledgements are lost here. An acknowledged tick is in its leader's log. A promise
is known to its proposer, or is refused on its arrival. For both others forget the earlier store before they tell the
newcomer their records.
"""

from dataclasses import replace

from lr_server.protocol.agreement.answers import without_disk
from lr_server.protocol.agreement.effects import Disregard, KeepRecord, KeepStore, RingEffect, SendMessage
from lr_server.protocol.agreement.messages import CopyRequest, Register, Registered, StoreCopy
from lr_server.protocol.agreement.record import MemberRecord, StoreId, with_store
from lr_server.protocol.agreement.roles import Following, Newcomer, RingMember, RingStep, disregarded


def ask(member: RingMember) -> RingStep:
    """Ask both others anew to count this store."""
    asking = replace(member, role=Newcomer())
    return asking, member.to_others(Register(member.record.store))


def answer_register(member: RingMember, sender: int, register: Register) -> RingStep:
    """Forget the earlier store of the sender, durably, then tell this member's record."""
    effects: list[RingEffect] = []
    if register.store.number > member.record.stores[sender].number:
        known = KeepStore(sender, register.store)
        member = without_disk(member.keeping(known), sender)
        effects.append(known)
    record = member.record
    effects.append(SendMessage(sender, Registered(record.promised, record.stores, record.history)))
    return member, tuple(effects)


def take_registered(member: RingMember, sender: int, store: StoreId, answer: Registered) -> RingStep:
    """With the answers of both others ask the one with the longest log for a copy."""
    role, record = member.role, member.record
    if not isinstance(role, Newcomer):
        return disregarded(member, Disregard.NO_NEWCOMER)
    known = answer.stores[record.rank]
    if known != record.store:
        if known.number < record.store.number:
            return disregarded(member, Disregard.OTHER_COPY)
        own = StoreId(known.number + 1, record.store.uid)
        return ask(replace(member, record=replace(record, stores=with_store(record.stores, record.rank, own))))
    if answer.stores[sender] != store:
        return disregarded(member, Disregard.OTHER_STORE)
    answers = (*role.answers[:sender], answer, *role.answers[sender + 1 :])
    member = replace(member, role=Newcomer(answers))
    told = _both(answers)
    if told is None:
        return member, ()
    longest = max(told, key=lambda rank: told[rank].history.newest)
    return member, (SendMessage(longest, CopyRequest()),)


def _both(answers: tuple[Registered | None, ...]) -> dict[int, Registered] | None:
    """Return the answers of both others by rank, if both know the same stores; None otherwise."""
    told = {rank: answer for rank, answer in enumerate(answers) if answer is not None}
    return told if len(told) == 2 and len({answer.stores for answer in told.values()}) == 1 else None


def answer_copy_request(member: RingMember, sender: int) -> RingStep:
    """Send a copy of this member's store."""
    record = member.record
    copied = StoreCopy(record.stores[sender], record.promised, record.stores, record.history)
    return member, (SendMessage(sender, copied),)


def take_copy(member: RingMember, copied: StoreCopy) -> RingStep:
    """Keep the copy, with the highest promise of both others; from here on the store counts."""
    record = member.record
    told = _both(member.role.answers) if isinstance(member.role, Newcomer) else None
    if told is None or copied.receiver != record.store:
        return disregarded(member, Disregard.OTHER_COPY)
    answers = [*told.values()]
    if copied.stores != answers[0].stores:
        return disregarded(member, Disregard.OTHER_STORE)
    if copied.history.newest < max(answer.history.newest for answer in answers):
        return disregarded(member, Disregard.OTHER_COPY)
    promised = max(copied.promised, *(answer.promised for answer in answers))
    stored = KeepRecord(MemberRecord(record.rank, copied.stores, promised, copied.history))
    return replace(member.keeping(stored), role=Following()), (stored,)
