"""The state of a member in the words of the status, and conclusions. Pure."""

from discovery.ring_status import RingStatus
from lr_server.protocol.agreement.generations import leader_of
from lr_server.protocol.agreement.roles import Following, Leading, RingMember


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


def status_of(member: RingMember | None, rank: int, alarm: str) -> RingStatus:
    """Return the status of *member*, which has *rank*; *alarm* has its last words for an operator."""
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
    )


def follows(status: RingStatus, generation: int) -> bool:
    """Return whether a member with *status* proves that *generation* leads.

    A later generation needs the promise of this member, or of the leader itself. A member that proposes may break its
    promise, and a newcomer has forgotten an earlier one.
    """
    return status.role == "following" and status.generation == generation
