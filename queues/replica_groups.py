"""Replicas: a group is one name for several sites that get the same entries. Pure.

See docs/replicas.md.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from queues.errors import ConfigurationError
from queues.names import SiteId, site_id

#: The members of each group, in the order in which the operator wrote them.
Groups = Mapping[SiteId, tuple[SiteId, ...]]
#: Groups as an operator wrote them, not checked yet.
WrittenGroups = Mapping[str, Sequence[str]] | Groups
#: A site without replicas.
NO_GROUPS: Final[Groups] = {}


class ActiveMember(NamedTuple):
    """The member of the group `name` that serves; a later choice has a higher generation."""

    name: SiteId
    member: SiteId
    generation: int


def checked_groups(written: WrittenGroups, peers: Collection[str]) -> Groups:
    """Return the groups with checked names, in the order of their names.

    Raises `ConfigurationError` or `InvalidNameError` for a wrong table. Wrong is an empty group, one with the name of a
    peer, or groups that name each other. So is a member that is no peer or that occurs twice.
    """
    groups = {site_id(name): _members(name, listed) for name, listed in sorted(written.items())}
    homes: dict[SiteId, SiteId] = {}
    for name, members in groups.items():
        if not members:
            raise ConfigurationError(f"replicas[{name}] has no member: name its sites, or remove the group")
        if name in peers:
            raise ConfigurationError(f"replicas[{name}] has the name of a peer: give the group a name of its own")
        for member in members:
            _check_member(name, member, groups, peers)
            if member in homes:
                where = "there twice" if homes[member] == name else f"in replicas[{homes[member]}] too"
                raise ConfigurationError(f"replicas[{name}]: {member!r} is {where}: name each site once")
            homes[member] = name
    return groups


def owed_sites(destinations: Iterable[SiteId], groups: Groups) -> tuple[SiteId, ...]:
    """Return the sites that an entry to *destinations* is owed to, sorted.

    A group stands for its members, and so does each member. So all members of a group have the same entries, with the
    same numbers.
    """
    named = set(destinations)
    for name, members in groups.items():
        if name in named or not named.isdisjoint(members):
            named.discard(name)
            named.update(members)
    return tuple(sorted(named))


def named_sites(names: Iterable[SiteId], groups: Groups) -> tuple[SiteId, ...]:
    """Return the sites that *names* stand for, sorted: a group for its members, and a member for itself alone."""
    return tuple(sorted({site for name in names for site in groups.get(name, (name,))}))


def group_of(member: SiteId, groups: Groups) -> SiteId | None:
    """Return the group of *member*; None if it is in no group."""
    return next((name for name, members in groups.items() if member in members), None)


def _members(name: str, listed: object) -> tuple[SiteId, ...]:
    if isinstance(listed, str) or not isinstance(listed, Iterable):
        raise ConfigurationError(f'replicas[{name}] must be a list of sites, such as ["{name}-a", "{name}-b"]')
    return tuple(site_id(each) for each in listed)


def _check_member(name: SiteId, member: SiteId, groups: Groups, peers: Collection[str]) -> None:
    if member in groups:
        if circle := _circle(name, groups):
            raise ConfigurationError(
                f"replicas name each other in a circle ({' -> '.join(circle)}): name sites as members"
            )
        raise ConfigurationError(f"replicas[{name}]: {member!r} is a group itself: name its members instead")
    if member not in peers:
        raise ConfigurationError(f"replicas[{name}]: {member!r} is no peer: add the site to peers first")


def _circle(begin: SiteId, groups: Groups) -> list[SiteId]:
    """Return the names from *begin* back to *begin*; empty if there is no such way."""
    ways = [[begin]]
    seen: set[SiteId] = set()
    while ways:
        way = ways.pop()
        for member in groups.get(way[-1], ()):
            if member == begin:
                return [*way, begin]
            if member in groups and member not in seen:
                seen.add(member)
                ways.append([*way, member])
    return []
