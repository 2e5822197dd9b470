"""List the groups of replicas of a site, and let another member of one serve."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Engine

from lrq.cli.exit_codes import NoError
from queues.clock import SYSTEM_CLOCK, Clock, poll
from queues.database.transactions import reading, writing
from queues.errors import ConfigurationError
from queues.names import ClientName, SiteId
from queues.positions import Position
from queues.promotion import Differs, MayServe, MemberStanding, NotYet, Readiness, Standings, decide_promotion
from queues.receive.told_members import ToldMember, read_told
from queues.replica_groups import ActiveMember, Groups, group_of
from queues.send_log.history import branch_starts
from queues.send_log.replica_members import choose, lock_active, read_active, read_groups
from queues.send_log.sessions import SessionRow, every_session

_PAUSE: Final = 0.05
_PAGE: Final = "docs/replicas.md"


@dataclass(frozen=True, slots=True)
class Replicas:
    """The groups that this site sends to, with the member that serves each, and the words of other sites."""

    groups: Groups
    active: Mapping[SiteId, ActiveMember]
    told: Sequence[ToldMember]

    def as_json(self) -> dict[str, Any]:
        """Return the JSON of `lrq replica list --json`."""
        return {
            "replicas": [
                {"name": name, "members": list(members), "active": None if found is None else found.member,
                 "generation": 0 if found is None else found.generation}
                for name, members in self.groups.items()
                for found in [self.active.get(name)]
            ],
            "told": [
                {"source": each.source, "name": each.name, "active": each.member, "generation": each.generation,
                 "age_seconds": round(each.age_us / 1_000_000, 3)}
                for each in self.told
            ],
        }  # fmt: skip


class Promotion(NamedTuple):
    """The member that serves now, and the one before; `is_change`: another one than before."""

    now: ActiveMember
    before: SiteId | None

    @property
    def is_change(self) -> bool:
        """Whether the name has moved."""
        return self.now.member != self.before


def list_replicas(engine: Engine) -> Replicas:
    """Return the groups of the site, as its servers follow them now."""
    with reading(engine, snapshot=True) as connection:
        return read_replicas(connection)


def read_replicas(connection: Connection) -> Replicas:
    """Like `list_replicas`, in the caller's transaction."""
    active = {each.name: each for each in read_active(connection)}
    return Replicas(read_groups(connection), active, read_told(connection))


def promote(
    engine: Engine, member: SiteId, *, timeout: float, force: bool = False, clock: Clock = SYSTEM_CLOCK
) -> Promotion:
    """Let *member* serve for its group; wait up to *timeout* seconds for entries that the active member had applied.

    Raises `ConfigurationError` for a site in no group. Raises `NoError` if the time is over, or the histories differ;
    with *force* the member serves all the same.
    """
    with reading(engine, snapshot=True) as connection:
        floor = _floor(connection, member)

    def look() -> Promotion | Readiness:
        with writing(engine) as connection:
            return _try(connection, member, floor, force=force)

    found = poll(look, lambda found: not isinstance(found, NotYet), timeout=timeout, pause=_PAUSE, clock=clock)
    match found:
        case Promotion():
            return found
        case NotYet(reason):
            raise NoError(
                f"after {timeout:g} s {reason}: wait longer with --timeout, or see docs/replicas.md for --force"
            )
        case Differs(reason):
            raise NoError(f"{reason}: promote another member, or read about --force in {_PAGE}")
        case MayServe():
            raise AssertionError


def _try(
    connection: Connection, member: SiteId, floor: Mapping[ClientName, Position], *, force: bool
) -> Promotion | Readiness:
    group = _group(connection, member)
    before = lock_active(connection, group)
    if before is not None and before.member == member:
        return Promotion(before, member)
    if not force:
        answer = decide_promotion(member, _standings(connection, member), floor, branch_starts(connection))
        if not isinstance(answer, MayServe):
            return answer
    return Promotion(choose(connection, group, member), None if before is None else before.member)


def _group(connection: Connection, member: SiteId) -> SiteId:
    groups = read_groups(connection)
    group = group_of(member, groups)
    if group is not None:
        return group
    if member in groups:
        raise ConfigurationError(
            f"{member} is the name of the group: name one of its members ({', '.join(groups[member])})"
        )
    raise ConfigurationError(f"{member} is in no group of replicas here: `lrq replica list` shows the groups")


def _floor(connection: Connection, member: SiteId) -> dict[ClientName, Position]:
    """Return the positions that the active member of the group has applied, as far as this source knows."""
    serving = read_active(connection, [_group(connection, member)])
    standings = _standings(connection, serving[0].member) if serving else {}
    return {client: each.applied for client, each in standings.items() if each.applied is not None}


def _standings(connection: Connection, member: SiteId) -> Standings:
    return {row.client: _standing(row) for row in every_session(connection) if row.destination == member}


def _standing(row: SessionRow) -> MemberStanding:
    applied = None if row.applied_seq is None or not row.branch else Position(row.branch, row.applied_seq)
    # The subscriber tells 0 before it has applied the snapshot.
    is_complete = row.acked_seq >= row.lost_seq and (bool(row.applied_seq) or not row.acked_seq)
    return MemberStanding(row.state, row.reason, applied, is_complete)
