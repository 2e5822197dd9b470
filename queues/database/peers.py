"""The table of peers and their groups, for servers that read their topology there: every read and every change."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select, update

from queues.database import dialects
from queues.database.tables.peers import peer_replicas, peers, peers_version
from queues.names import SET_SEPARATOR, SiteId
from queues.replica_groups import NO_GROUPS, Groups


class PeersVersion(NamedTuple):
    """The number of a state of the table, and the time of its change in microseconds since 1970 (UTC).

    A database that is restored from a backup may give one number twice, but never with one time.
    """

    number: int = 1
    changed_us: int = 0


class PeerRow(NamedTuple):
    """A row of the table: endpoints between commas; without a `snapshot_endpoint` snapshots take the same way."""

    site: SiteId
    endpoint: str
    snapshot_endpoint: str = ""


class PeerTable(NamedTuple):
    """The whole table at one version, in the order of the sites, with the groups of replicas."""

    version: PeersVersion
    rows: tuple[PeerRow, ...] = ()
    replicas: Groups = NO_GROUPS

    @property
    def by_site(self) -> Mapping[SiteId, PeerRow]:
        """The rows by their sites."""
        return {row.site: row for row in self.rows}


def read_version(connection: Connection) -> PeersVersion:
    """Return the version of the table; one small read, for polls."""
    found = connection.execute(select(peers_version.c.version, peers_version.c.changed_us)).first()
    return PeersVersion() if found is None else PeersVersion(*found)


def read_table(connection: Connection) -> PeerTable:
    """Return the table; within one snapshot of the database, version and rows belong together."""
    version = read_version(connection)
    columns = peers.c.site, peers.c.endpoint, peers.c.snapshot_endpoint
    rows = connection.execute(select(*columns).order_by(peers.c.site))
    listed = tuple(PeerRow(SiteId(site), *rest) for site, *rest in rows)
    groups = connection.execute(select(peer_replicas.c.name, peer_replicas.c.members))
    return PeerTable(version, listed, {SiteId(name): _members(members) for name, members in groups})


def lock_table(connection: Connection) -> PeerTable:
    """Return the table, which no other transaction changes before the caller's transaction ends."""
    if not connection.execute(update(peers_version).values(version=peers_version.c.version)).rowcount:
        connection.execute(insert(peers_version).values(one=1, version=1, changed_us=0))
    return read_table(connection)


def put_peer(connection: Connection, row: PeerRow) -> None:
    """Add a peer, or replace its endpoints; `lock_table` must come first."""
    now = _raise_version(connection)
    values = {"endpoint": row.endpoint, "snapshot_endpoint": row.snapshot_endpoint, "changed_us": now}
    if not connection.execute(update(peers).where(peers.c.site == row.site).values(values)).rowcount:
        connection.execute(insert(peers).values(site=row.site, **values))


def remove_peer(connection: Connection, site: SiteId) -> None:
    """Remove a peer; `lock_table` must come first."""
    _raise_version(connection)
    connection.execute(delete(peers).where(peers.c.site == site))


def put_replicas(connection: Connection, name: SiteId, members: Sequence[SiteId]) -> None:
    """Add a group of replicas, or replace its members; `lock_table` must come first."""
    now = _raise_version(connection)
    connection.execute(delete(peer_replicas).where(peer_replicas.c.name == name))
    values = {"name": name, "members": SET_SEPARATOR.join(members), "changed_us": now}
    connection.execute(insert(peer_replicas).values(values))


def remove_replicas(connection: Connection, name: SiteId) -> None:
    """Remove a group of replicas; `lock_table` must come first."""
    _raise_version(connection)
    connection.execute(delete(peer_replicas).where(peer_replicas.c.name == name))


def _members(text: str) -> tuple[SiteId, ...]:
    return tuple(SiteId(name) for name in text.split(SET_SEPARATOR))


def _raise_version(connection: Connection) -> int:
    now = dialects.of(connection).now_us(connection)
    connection.execute(update(peers_version).values(version=peers_version.c.version + 1, changed_us=now))
    return now
