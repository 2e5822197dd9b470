"""The status of a member: its role, the leader that it knows, and the ticks that it may trim. Pure."""

from typing import Final

from discovery.ring_status import RingStatus
from lr_server.protocol.agreement.answers import missed_followers
from lr_server.protocol.agreement.generations import leader_of
from lr_server.protocol.agreement.roles import Following, Leading, RingMember

#: The newest ticks of a log are never trimmed. The requests of producers need 128 of them, and 64 more at times.
KEPT_TICKS: Final = 256


def trimmable(member: RingMember | None) -> int:
    """Return the number of the newest tick whose entries *member* may trim; 0 for none.

    The tick is released. A leader knows besides that both followers have it on their disks.
    """
    if member is None or not isinstance(member.role, Leading | Following):
        return 0
    upto = min(member.released, member.record.history.end - KEPT_TICKS)
    if isinstance(member.role, Leading):
        upto = min(upto, *(member.role.held[rank] for rank in member.record.others))
    return max(upto, 0)


def led_generation(member: RingMember | None) -> int:
    """Return the generation that *member* leads and in which it takes entries; 0 for none."""
    if member is None or not isinstance(member.role, Leading) or member.released < member.role.seal:
        return 0
    return member.role.generation


def known_leader(member: RingMember | None) -> int | None:
    """Return the rank that leads, as far as *member* knows; None if it knows no leader."""
    if member is None:
        return None
    if led_generation(member):
        return member.record.rank
    is_heard = isinstance(member.role, Following) and member.role.hears
    return leader_of(member.record.promised) if is_heard else None


def status_of(member: RingMember | None, rank: int, alarm: str, trimmed: int = 0) -> RingStatus:
    """Return the status of *member*, which has *rank*; *alarm* has its last words for an operator.

    *trimmed* is the number of the newest trimmed tick.
    """
    if member is None:
        return RingStatus(rank, "closed", alarm=alarm)
    role = member.role
    return RingStatus(
        rank,
        type(role).__name__.lower(),
        generation=member.record.promised,
        leader=known_leader(member),
        newest=member.record.history.end,
        released=member.released,
        held=role.held if isinstance(role, Leading) else (),
        alarm=alarm,
        trimmed=trimmed,
        acknowledging_followers=member.limits.acknowledging,
        silent=missed_followers(member),
    )


def is_well_again(before: RingMember, after: RingMember) -> bool:
    """Return whether a step shows that an earlier alarm of this member is over.

    The member begins to lead, or becomes level with its leader. Or another member has a new store.
    """
    has_new_store = before.record.stores != after.record.stores
    return has_new_store or (_is_sound(after) and not _is_sound(before))


def _is_sound(member: RingMember) -> bool:
    role = member.role
    return isinstance(role, Leading) or (isinstance(role, Following) and role.is_level)


def follows(status: RingStatus, generation: int) -> bool:
    """Return whether a member with *status* proves that *generation* leads.

    A later generation needs the promise of this member, or of the leader itself. A member that proposes may break its
    promise, and a newcomer has forgotten an earlier one.
    """
    return status.role == "following" and status.generation == generation
