"""Decide whether a member of a group may serve from now on. Pure.

See docs/replicas.md, "Promote a member".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from queues.lineage import keeps
from queues.names import ClientName, SiteId
from queues.positions import Position
from queues.states import SessionState

#: A member in another state has no connection, or no complete state.
_READY: Final = (SessionState.LOG_ENTRY_SYNC, SessionState.DRAINING, SessionState.FINISHED)
#: No such session goes on by itself.
_ENDED: Final = (SessionState.FAILED, SessionState.INACTIVE)


@dataclass(frozen=True, slots=True)
class MemberStanding:
    """One client at one member, as the source knows it: the session's state, and the applied position.

    `applied` is None if the member has not told it; `is_complete`: no part of a snapshot is missing there.
    """

    state: SessionState
    reason: str
    applied: Position | None
    is_complete: bool = True


#: The clients of a member.
Standings = Mapping[ClientName, MemberStanding]


@dataclass(frozen=True, slots=True)
class MayServe:
    """The member may serve: its histories agree with those of the active member."""


@dataclass(frozen=True, slots=True)
class NotYet:
    """The member lacks entries or its connection, and may still get them."""

    reason: str


@dataclass(frozen=True, slots=True)
class Differs:
    """The histories differ, or an operator must mend the session; only force promotes the member."""

    reason: str


Readiness = MayServe | NotYet | Differs


def decide_promotion(
    member: SiteId, target: Standings, floor: Mapping[ClientName, Position], starts: Sequence[tuple[str, int]]
) -> Readiness:
    """Return whether *member* may serve.

    Args:
        member: The site that shall serve.
        target: The clients of that site.
        floor: For each client the position that the active member had applied when the promotion was asked for.
        starts: All branches of the source with the numbers before them, oldest first.
    """
    for client, needed in sorted(floor.items()):
        if not keeps(starts, needed):
            return Differs(
                f"the active member has applied {client} up to {needed}, which the history of this source has lost"
            )
        found = target.get(client)
        if found is None:
            return Differs(f"{member} has no session for client {client}")
    for client, standing in sorted(target.items()):
        answer = _of_client(member, client, standing, floor.get(client), starts)
        if not isinstance(answer, MayServe):
            return answer
    return MayServe()


def _of_client(
    member: SiteId,
    client: ClientName,
    standing: MemberStanding,
    needed: Position | None,
    starts: Sequence[tuple[str, int]],
) -> Readiness:
    if standing.state not in _READY:
        words = f"{standing.state}: {standing.reason}".removesuffix(": ")
        reason = f"the session of {client} to {member} does not follow the log ({words})"
        return Differs(reason) if standing.state in _ENDED else NotYet(reason)
    applied = standing.applied
    if not standing.is_complete or applied is None:
        return NotYet(f"{member} has not applied the beginning of {client} yet")
    if not keeps(starts, applied):
        return Differs(f"{member} has applied {client} up to {applied}, which is not in the history of this source")
    if needed is not None and applied.seq < needed.seq:
        return NotYet(f"{member} has applied {client} up to {applied.seq} of {needed.seq}")
    return MayServe()
