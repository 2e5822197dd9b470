"""The groups of replicas at their source, and the member of each that serves: every read and every change."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, delete, insert, literal_column, select, union_all, update

from queues.clock import now_us
from queues.database import dialects, generations
from queues.database.tables.log import log_head
from queues.database.tables.replicas import active_members, replicas
from queues.names import SiteId
from queues.replica_groups import ActiveMember, Groups


def read_groups(connection: Connection) -> Groups:
    """Return the groups that the destination sets follow now."""
    found: dict[SiteId, tuple[SiteId, ...]] = {}
    ordered = select(replicas.c.name, replicas.c.member).order_by(replicas.c.name, replicas.c.place)
    for name, member in connection.execute(ordered):
        found[SiteId(name)] = (*found.get(SiteId(name), ()), SiteId(member))
    return found


class ReplicaFacts(NamedTuple):
    """The groups that the destination sets follow, the members that serve, and the last change of the sets.

    Of `regrouped_seq` see `queues.send_log.replica_sets`.
    """

    groups: Groups
    active: Sequence[ActiveMember]
    regrouped_seq: int


def read_facts(connection: Connection) -> ReplicaFacts:
    """Return the facts of one moment, with one statement; no statement follows in the transaction."""
    groups: dict[SiteId, tuple[SiteId, ...]] = {}
    active: list[ActiveMember] = []
    regrouped_seq = 0
    [rows] = dialects.of(connection).run_all(connection, [(_FACTS, {})], last=True)
    for kind, name, member, number in rows:
        if kind == _MEMBER:
            groups[SiteId(name)] = (*groups.get(SiteId(name), ()), SiteId(member))
        elif kind == _ACTIVE:
            active.append(ActiveMember(SiteId(name), SiteId(member), number))
        else:
            regrouped_seq = number
    return ReplicaFacts(groups, active, regrouped_seq)


def store_groups(connection: Connection, groups: Groups) -> None:
    """Replace the groups; the first member of a new group serves, and the choice for a removed group is gone."""
    connection.execute(delete(replicas))
    rows = [
        {"name": name, "member": member, "place": place}
        for name, members in groups.items()
        for place, member in enumerate(members)
    ]
    if rows:
        connection.execute(insert(replicas), rows)
    chosen = {each.name for each in read_active(connection)}
    connection.execute(delete(active_members).where(active_members.c.name.in_(chosen - groups.keys())))
    for name in groups.keys() - chosen:
        choose(connection, name, groups[name][0])


def read_active(connection: Connection, names: Iterable[SiteId] | None = None) -> list[ActiveMember]:
    """Return the members that serve, in the order of the groups; those of *names*, or (None) of all groups."""
    chosen = select(*_COLUMNS).order_by(active_members.c.name)
    if names is not None:
        chosen = chosen.where(active_members.c.name.in_(list(names)))
    return [ActiveMember(SiteId(name), SiteId(member), number) for name, member, number in connection.execute(chosen)]


def lock_active(connection: Connection, name: SiteId) -> ActiveMember | None:
    """Return the member that serves for *name*, which no other transaction changes before this one ends."""
    own = active_members.c.name == name
    connection.execute(update(active_members).where(own).values(member=active_members.c.member))
    return next(iter(read_active(connection, [name])), None)


def choose(connection: Connection, name: SiteId, member: SiteId) -> ActiveMember:
    """Let *member* serve for the group *name* from now on, under a new generation of the site's counter."""
    # The counter's row stays locked until the transaction ends, so two choices follow each other.
    generation = generations.advance(connection)
    values = {"member": member, "generation": generation, "changed_us": now_us()}
    own = active_members.c.name == name
    if not connection.execute(update(active_members).where(own).values(values)).rowcount:
        connection.execute(insert(active_members).values(name=name, **values))
    return ActiveMember(name, member, generation)


_MEMBER: Final = 0
_ACTIVE: Final = 1
_SETS: Final = 2
_FACTS: Final = union_all(
    select(literal_column(str(_MEMBER)), replicas.c.name, replicas.c.member, replicas.c.place),
    select(literal_column(str(_ACTIVE)), active_members.c.name, active_members.c.member, active_members.c.generation),
    select(literal_column(str(_SETS)), literal_column("''"), literal_column("''"), log_head.c.regrouped_seq),
).order_by(literal_column("1"), literal_column("2"), literal_column("4"))
_COLUMNS = tuple(active_members.c[name] for name in ActiveMember._fields)
