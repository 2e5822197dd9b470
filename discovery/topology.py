"""Which sites there are, and where they are reached."""

from collections.abc import Mapping
from typing import Protocol

from queues.errors import ConfigurationError
from queues.names import SiteId, site_id


class Topology(Protocol):
    """The peers of a site. `version` grows with every change, and nothing else changes what the others return."""

    @property
    def version(self) -> int:
        """The number of this topology."""
        ...

    def peers(self) -> frozenset[SiteId]:
        """Return the sites that can be reached."""
        ...

    def endpoint(self, site: SiteId) -> str:
        """Return where *site* is reached (see `split_endpoints`); raise `ConfigurationError` when it is no peer."""
        ...


class StaticTopology:
    """The topology that was written down; it never changes."""

    version = 1

    def __init__(self, peers: Mapping[str, str]) -> None:
        """Keep the endpoint of each site; raise `InvalidNameError` for a malformed site id."""
        self._endpoints = {site_id(site): endpoint for site, endpoint in peers.items()}

    def peers(self) -> frozenset[SiteId]:
        """Return the sites that can be reached."""
        return frozenset(self._endpoints)

    def endpoint(self, site: SiteId) -> str:
        """Return where *site* is reached; raise `ConfigurationError` when it is no peer."""
        try:
            return self._endpoints[site]
        except KeyError:
            raise ConfigurationError(f"site {site!r} has no endpoint: add it to `peers`") from None


def split_endpoints(text: str) -> tuple[str, ...]:
    """Return the endpoints of a site: one, or one for each of its servers, between commas."""
    return tuple(endpoint.strip() for endpoint in text.split(","))
