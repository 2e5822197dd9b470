"""The peers of a site and their endpoints."""

from collections.abc import Mapping
from typing import Protocol

from queues.errors import ConfigurationError
from queues.names import SiteId, site_id


class Topology(Protocol):
    """The peers of a site. The results of the other methods change only together with a higher `version`."""

    @property
    def version(self) -> int:
        """The number of this topology."""
        ...

    def peers(self) -> frozenset[SiteId]:
        """Return the sites that can be reached."""
        ...

    def endpoint(self, site: SiteId) -> str:
        """Return the endpoint of *site* (see `split_endpoints`); raise `ConfigurationError` if it is not a peer."""
        ...


class StaticTopology:
    """A topology that never changes."""

    version = 1

    def __init__(self, peers: Mapping[str, str]) -> None:
        """Keep the endpoint of each site; raise `InvalidNameError` for a malformed site id."""
        self._endpoints = {site_id(site): endpoint for site, endpoint in peers.items()}

    def peers(self) -> frozenset[SiteId]:
        """Return the sites that can be reached."""
        return frozenset(self._endpoints)

    def endpoint(self, site: SiteId) -> str:
        """Return the endpoint of *site*; raise `ConfigurationError` if it is not a peer."""
        try:
            return self._endpoints[site]
        except KeyError:
            raise ConfigurationError(f"site {site!r} has no endpoint: add it to `peers`") from None


def split_endpoints(text: str) -> tuple[str, ...]:
    """Split a comma-separated list of endpoints: one for each server of a site."""
    return tuple(endpoint.strip() for endpoint in text.split(","))
