"""When a request of a producer may be answered: its tick is released, and on enough disks. Pure.

The release needs one follower (R7). An answer needs as many as `RingLimits.acknowledging` says: one, or both. Only the
leader knows of both.
"""

from dataclasses import replace

from lr_server.protocol.agreement.effects import Disregard
from lr_server.protocol.agreement.history import TickMark
from lr_server.protocol.agreement.roles import Leading, RingMember, RingStep, disregarded


def may_answer(member: RingMember, tick: TickMark) -> bool:
    """Return whether *member* knows that the requests of *tick* may be answered."""
    return answerable_end(member) >= tick.seq and member.record.history.holds(tick)


def answerable_end(member: RingMember) -> int:
    """Return the number of the newest tick whose requests may be answered; 0 for none."""
    if member.limits.acknowledging == 1:
        return member.released
    role = member.role
    if not isinstance(role, Leading) or role.silent:
        return 0
    return min(member.released, *(role.held[rank] for rank in member.record.others))


def missed_followers(member: RingMember) -> tuple[int, ...]:
    """Return the followers, in order, without whose disks this leader answers no request, and which are silent."""
    return tuple(sorted(member.role.silent)) if isinstance(member.role, Leading) else ()


def lose_follower(member: RingMember, rank: int) -> RingStep:
    """Answer no request until the follower *rank* acknowledges again."""
    if not isinstance(member.role, Leading):
        return disregarded(member, Disregard.LEADS_NOT)
    if member.limits.acknowledging == 1:
        return disregarded(member, Disregard.ONE_IS_ENOUGH)
    return without_disk(member, rank), ()


def without_disk(member: RingMember, rank: int) -> RingMember:
    """Return the member that counts the disk of *rank* for no answer until that follower acknowledges again."""
    role = member.role
    if not isinstance(role, Leading) or member.limits.acknowledging == 1:
        return member
    return replace(member, role=replace(role, silent=role.silent | {rank}))
