"""The peers of a site and their endpoints."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from queues.errors import ConfigurationError
from queues.names import SiteId, site_id
from queues.replica_groups import NO_GROUPS, Groups, WrittenGroups, checked_groups


class Peer(NamedTuple):
    """The endpoints of a site, in the form of `split_endpoints`; `snapshot_endpoint` is empty if there is no other."""

    endpoint: str
    snapshot_endpoint: str = ""

    @property
    def for_snapshots(self) -> str:
        """The endpoint for snapshots."""
        return self.snapshot_endpoint or self.endpoint


class Topology(Protocol):
    """The peers of a site. The results of the other methods change only together with a higher `version`."""

    @property
    def version(self) -> int:
        """The number of this topology; 0 while the peers are not known yet."""
        ...

    def peers(self) -> Mapping[SiteId, Peer]:
        """Return the sites that can be reached, with their endpoints; the mapping never changes."""
        ...

    def replicas(self) -> Groups:
        """Return the groups of replicas among these sites; the mapping never changes."""
        ...


class StaticTopology:
    """A topology that never changes."""

    version = 1

    def __init__(self, peers: Mapping[str, str], replicas: WrittenGroups = NO_GROUPS) -> None:
        """Keep the endpoint of each site; raise `InvalidNameError` for a malformed site id.

        Raises `ConfigurationError` for wrong *replicas*.
        """
        self._peers = {site_id(site): Peer(endpoint) for site, endpoint in peers.items()}
        self._replicas = checked_groups(replicas, self._peers)

    def peers(self) -> Mapping[SiteId, Peer]:
        """Return the sites that can be reached."""
        return self._peers

    def replicas(self) -> Groups:
        """Return the groups of replicas."""
        return self._replicas


def peer_of(topology: Topology, site: SiteId) -> Peer:
    """Return the endpoints of *site*; raise `ConfigurationError` if it is not a peer."""
    found = topology.peers().get(site)
    if found is None:
        raise ConfigurationError(f"site {site!r} has no endpoint: add it to the peers")
    return found


def peers_of(endpoints: Mapping[str, str], snapshot_endpoints: Mapping[str, str]) -> Mapping[str, Peer]:
    """Return the endpoints of each site, also of one that has an endpoint for snapshots only; nothing is checked."""
    names = {**endpoints, **snapshot_endpoints}
    return {site: Peer(endpoints.get(site, ""), snapshot_endpoints.get(site, "")) for site in names}


def split_endpoints(text: str) -> tuple[str, ...]:
    """Split a comma-separated list of endpoints: one for each server of a site."""
    return tuple(endpoint.strip() for endpoint in text.split(","))
