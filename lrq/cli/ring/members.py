"""Ask all members of a ring for their states."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from discovery.ring_status import RingStatus
from lr_server.protocol.agreement.roles import DEFAULT_LIMITS
from lr_server.ring.codec import RingAddress
from lr_server.ring.look import look_at
from lr_server.ring.seat import TOKEN
from lr_server.ring_setting import RingSetting
from lr_server.settings import Settings
from queues.errors import ConfigurationError, LrqError
from queues.words import in_words

#: A follower that lacks more ticks than a leader lets wait is behind.
_FAR_BEHIND: Final = 2 * DEFAULT_LIMITS.waiting


@dataclass(frozen=True, slots=True)
class MemberView:
    """One member of the ring: its state, or the problem why it tells none."""

    rank: int
    endpoint: str
    status: RingStatus | None
    problem: str = ""
    name: str = ""

    @property
    def shown(self) -> str:
        """The rank, with the name of the member if it has one."""
        return f"{self.rank} {self.name}".rstrip()

    def as_json(self) -> dict[str, Any]:
        """Return an item of `members`."""
        told = None if self.status is None else self.status.as_json()
        facts = {"rank": self.rank, "endpoint": self.endpoint, "status": told, "problem": self.problem}
        return {**facts, "name": self.name} if self.name else facts


def ask_members(settings: Settings) -> list[MemberView]:
    """Ask all members of the ring, by rank; raise `ConfigurationError` for settings without a ring."""
    ring = ring_of(settings)
    names = ring.names or [""] * len(ring.members)
    found = [_look(settings, rank, endpoint) for rank, endpoint in enumerate(ring.members)]
    return [replace(view, name=name) for view, name in zip(found, names, strict=True)]


def ring_of(settings: Settings) -> RingSetting:
    """Return the table `[ring]`; raise `ConfigurationError` if there is none."""
    if settings.ring is None:
        raise ConfigurationError("the server has no ring: write a table [ring] in lrq.toml (docs/running-a-ring.md)")
    return settings.ring


def ring_trouble(views: Sequence[MemberView]) -> str:
    """Return why the ring takes no entries, which member does not follow, or how settings differ. Pure.

    The sentence is empty if all is well.
    """
    states = [view.status for view in views if view.status is not None]
    if not any(state.role == "leading" and state.leader == state.rank for state in states):
        alarms = (f" (rank {state.rank}: {state.alarm})" for state in states if state.alarm)
        return f"no member leads, so the ring takes no entries{next(alarms, '')}"
    for view in views:
        if view.status is None:
            return f"rank {view.rank} does not answer: {view.problem}"
        if trouble := view.status.trouble or view.status.alarm:
            return f"rank {view.rank}: {trouble}"
    if unheard := _unheard(states):
        return unheard
    numbers = {
        "rings": {state.rank: state.rings for state in states},
        "acknowledging_followers": {state.rank: state.acknowledging_followers for state in states},
    }
    for name, told in numbers.items():
        if len(set(told.values())) > 1:
            words = ", ".join(f"{number} at rank {rank}" for rank, number in told.items())
            return f"`{name}` differs ({words}): set one number at all three servers, and restart them"
    return ""


def _unheard(states: Sequence[RingStatus]) -> str:
    """Return which follower hears its leader, and is not heard there or is far behind; empty if none is."""
    for leader in states:
        for rank, held in enumerate(leader.held if leader.role == "leading" else ()):
            behind = leader.newest - held
            if rank != leader.rank and (not held or behind > _FAR_BEHIND):
                return (
                    f"rank {rank}: rank {leader.rank} has no acknowledgement of the last {behind} ticks, so these may "
                    "be on two disks only: wait for the copy, or mend the way between both"
                )
    return ""


def _look(settings: Settings, rank: int, endpoint: str) -> MemberView:
    try:
        found = look_at(RingAddress(settings.site_id, TOKEN), endpoint, settings.credentials)
    except LrqError as error:
        return MemberView(rank, endpoint, None, in_words(error))
    if found.rank != rank:
        return MemberView(rank, endpoint, None, f"this endpoint belongs to rank {found.rank}: correct [ring]")
    return MemberView(rank, endpoint, found)
