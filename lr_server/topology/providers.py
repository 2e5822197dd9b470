"""The places of a site's peers: settings, the site's file, the table, or an object of a third party."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sqlalchemy import Engine

from discovery.topology import Peer, peers_of
from queues.database import peers as table
from queues.database.transactions import reading
from queues.errors import ConfigurationError
from queues.names import SiteId


@dataclass(frozen=True, slots=True)
class PeerList:
    """The peers of a site, as a provider gives them.

    Attributes:
        peers: The endpoints of each site as in `[peers]` of the site's file: one, or several between commas.
        version: A number from 1 that rises with each change; a server ignores a list with a lower one than before.
            Without a version the server counts the changes itself.
        snapshot_endpoints: Other endpoints for the snapshots of some of the sites.
        replicas: Groups of these sites as in `[replicas]` of the site's file: all members get the same entries.
    """

    peers: Mapping[str, str]
    version: int | None = None
    snapshot_endpoints: Mapping[str, str] = field(default_factory=dict)
    replicas: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def by_site(self) -> Mapping[str, Peer]:
        """The endpoints of each site, not checked yet."""
        return peers_of(self.peers, self.snapshot_endpoints)


class TopologyProvider(Protocol):
    """Gives the peers of a site from a place of the application's own, such as a service directory.

    `topology = "module:name"` names a provider, or a class or function without parameters that returns one. So does the
    name of an entry point in the group "lrq.topology".

    Example:
        >>> class Directory:
        ...     def read(self) -> PeerList:
        ...         return PeerList({"tokyo": "tls://tokyo.example:7400"}, version=7)
    """

    def read(self) -> PeerList:
        """Return all peers; a server calls this every `topology_poll_seconds`, in one thread.

        After an error or a wrong list, the server goes on with the last good list and shows the reason.
        """
        ...


class FileProvider:
    """Gives the peers of the settings, and reads the site's file again for each later call."""

    def __init__(self, first: PeerList, reread: Callable[[], PeerList]) -> None:
        """Return *first* once, then the result of *reread*, which raises `ConfigurationError` for a wrong file."""
        self._first: PeerList | None = first
        self._reread = reread

    def read(self) -> PeerList:
        """Return the peers that the file has now."""
        first, self._first = self._first, None
        return self._reread() if first is None else first


class TableProvider:
    """Gives the peers in the table `lrq_peers` of the site's database."""

    def __init__(self, engine: Engine) -> None:
        """Read the table with *engine*."""
        self._engine = engine
        self._seen: tuple[table.PeersVersion, PeerList] | None = None

    def read(self) -> PeerList:
        """Return the peers; while the version stays, this reads one row. Raises `StoreUnavailableError`."""
        if self._seen is not None:
            with reading(self._engine) as connection:
                if table.read_version(connection) == self._seen[0]:
                    return self._seen[1]
        with reading(self._engine, snapshot=True) as connection:
            found = table.read_table(connection)
        self._seen = found.version, list_of(found)
        return self._seen[1]


def list_of(found: table.PeerTable) -> PeerList:
    """Return the rows of the table as a list of peers."""
    others: dict[str, str] = {row.site: row.snapshot_endpoint for row in found.rows if row.snapshot_endpoint}
    replicas: dict[str, tuple[SiteId, ...]] = {str(name): members for name, members in found.replicas.items()}
    return PeerList({row.site: row.endpoint for row in found.rows}, found.version.number, others, replicas)


def required(found: object) -> PeerList:
    """Return *found* if it is a list of peers in form; raise `ConfigurationError`."""
    if not isinstance(found, PeerList):
        raise ConfigurationError(f"the provider returned {type(found).__name__}, not a lr_server.PeerList")
    if not isinstance(found.peers, Mapping) or not isinstance(found.snapshot_endpoints, Mapping):
        raise ConfigurationError("the provider returned peers that are no mapping of site ids to endpoints")
    if not isinstance(found.replicas, Mapping):
        raise ConfigurationError("the provider returned replicas that are no mapping of names to lists of sites")
    if found.version is not None and type(found.version) is not int:
        raise ConfigurationError(f"the provider returned {found.version!r} as version, which is no whole number")
    if found.version is not None and found.version < 1:
        raise ConfigurationError(f"the provider returned version {found.version}: count from 1")
    return found
