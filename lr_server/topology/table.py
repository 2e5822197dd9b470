"""Change the table of peers: each change is checked as a whole first, and a wrong one changes nothing."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, Engine

from lr_server.topology.providers import list_of
from lr_server.topology.rules import OwnSite, checked_peers
from queues.database.peers import (
    PeerRow,
    lock_table,
    put_peer,
    put_replicas,
    remove_peer,
    remove_replicas,
)
from queues.database.servers import view_of
from queues.database.transactions import writing
from queues.errors import ConfigurationError
from queues.names import SiteId
from queues.replica_groups import checked_groups, group_of


class PeerChange(NamedTuple):
    """The rows of one site before and after a change of the table, and the new version of the table."""

    before: PeerRow | None
    after: PeerRow | None
    version: int

    @property
    def is_change(self) -> bool:
        """Whether anything has changed."""
        return self.before != self.after


def add_peer(engine: Engine, row: PeerRow, own: OwnSite) -> PeerChange:
    """Add a peer, or give it other endpoints; the same row again changes nothing.

    All peers together are checked against *own* and the servers that work for the site now. Raises the errors of
    `checked_peers`.
    """
    with writing(engine) as connection:
        found = lock_table(connection)
        rows = {**found.by_site, row.site: row}
        after = found._replace(rows=tuple(rows.values()))
        checked_groups(after.replicas, checked_peers(list_of(after).by_site, _with_servers(connection, own)))
        before = found.by_site.get(row.site)
        if before == row:
            return PeerChange(before, row, found.version.number)
        put_peer(connection, row)
    return PeerChange(before, row, found.version.number + 1)


def drop_peer(engine: Engine, site: SiteId) -> PeerChange:
    """Remove a peer; without such a peer nothing changes. Raises `ConfigurationError` for a member of a group."""
    with writing(engine) as connection:
        found = lock_table(connection)
        before = found.by_site.get(site)
        if before is None:
            return PeerChange(None, None, found.version.number)
        if (group := group_of(site, found.replicas)) is not None:
            raise ConfigurationError(
                f"{site} is a member of the replicas {group}: give {group} other members first (`lrq replica add`)"
            )
        remove_peer(connection, site)
    return PeerChange(before, None, found.version.number + 1)


class ReplicasChange(NamedTuple):
    """The members of one group after a change of the table, and the version of the table; `is_change`: of the group."""

    members: tuple[SiteId, ...]
    version: int
    is_change: bool


def put_group(engine: Engine, name: SiteId, members: Sequence[SiteId]) -> ReplicasChange:
    """Make *name* a group of *members*; the same group again changes nothing.

    All groups together are checked first: see `checked_groups` for the errors.
    """
    with writing(engine) as connection:
        found = lock_table(connection)
        after = {**found.replicas, name: tuple(members)}
        checked_groups(after, found.by_site)
        if found.replicas.get(name) == tuple(members):
            return ReplicasChange(tuple(members), found.version.number, is_change=False)
        put_replicas(connection, name, members)
    return ReplicasChange(tuple(members), found.version.number + 1, is_change=True)


def drop_group(engine: Engine, name: SiteId) -> ReplicasChange:
    """Remove a group; its members stay peers. Without such a group nothing changes."""
    with writing(engine) as connection:
        found = lock_table(connection)
        if name not in found.replicas:
            return ReplicasChange((), found.version.number, is_change=False)
        remove_replicas(connection, name)
    return ReplicasChange((), found.version.number + 1, is_change=True)


def _with_servers(connection: Connection, own: OwnSite) -> OwnSite:
    endpoints = (each for row in view_of(connection).living.values() for each in row.endpoints)
    return own._replace(endpoints=tuple(dict.fromkeys([*own.endpoints, *endpoints])))
