"""The rules for the peers of a site: a wrong list is refused as a whole, in one sentence. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from discovery.topology import Peer, split_endpoints
from queues.errors import ConfigurationError
from queues.names import SiteId, site_id
from sink.transport.endpoints import (
    AttachedEndpoint,
    Endpoint,
    IpcEndpoint,
    LocalEndpoint,
    TcpEndpoint,
    TlsEndpoint,
    network_endpoint,
    parse_endpoint,
)

#: Addresses that mean every address of the machine, for a server that listens.
WILDCARDS: Final = frozenset({"0.0.0.0", "::"})
_THIS_MACHINE: Final = frozenset({"127.0.0.1", "::1", "localhost", *WILDCARDS})


class OwnSite(NamedTuple):
    """The site whose peers are checked: its id, the endpoints of its servers, and whether it can speak TLS."""

    site: str
    endpoints: tuple[str, ...] = ()
    has_tls: bool = False


def checked_peers(peers: Mapping[str, Peer], own: OwnSite) -> Mapping[SiteId, Peer]:
    """Return *peers* with checked names and endpoints.

    Raises `ConfigurationError` or `InvalidNameError` for a malformed name or endpoint, and for an endpoint that a site
    has twice. So does a peer that is the site itself, and TLS without credentials. Two sites may share an endpoint, as
    behind a gateway; the negotiation tells the wrong site.
    """
    found = {site_id(name): peer for name, peer in peers.items()}
    mine = [parse_endpoint(text) for text in own.endpoints]
    for site, peer in found.items():
        if site == own.site:
            raise ConfigurationError(f"peers names {site!r}, which is this site itself: remove that peer")
        if not peer.endpoint and peer.snapshot_endpoint:
            raise ConfigurationError(f"snapshot_endpoints names {site!r}, which is no peer: add the site to peers")
        for listed in (peer.endpoint, *([peer.snapshot_endpoint] if peer.snapshot_endpoint else [])):
            for endpoint in _endpoints(site, listed):
                _check(site, endpoint, own, mine)
    return found


def check_endpoints(text: str) -> None:
    """Check the endpoints of one peer by themselves; raise `ConfigurationError` for a wrong one."""
    seen: set[str] = set()
    for part in split_endpoints(text):
        endpoint = parse_endpoint(part)
        if isinstance(endpoint, TcpEndpoint) and not endpoint.port:
            raise ConfigurationError(f"{part!r} has no port to connect to: write the port where that site listens")
        if isinstance(endpoint, TcpEndpoint) and endpoint.host in WILDCARDS:
            raise ConfigurationError(
                f"{part!r} stands for every address of a machine: write the address or the name of that machine"
            )
        if _place(endpoint) in seen:
            raise ConfigurationError(f"{part!r} is there twice: write each endpoint once")
        seen.add(_place(endpoint))


def check_servers(text: str) -> None:
    """Check the endpoints of one source, at which its servers listen; raise `ConfigurationError` for a wrong one."""
    check_endpoints(text)
    for part in split_endpoints(text):
        network_endpoint(part)


def speaks_tls(peers: Iterable[Peer]) -> bool:
    """Return whether an endpoint of *peers* begins with tls://; the endpoints must be well-formed."""
    texts = (text for peer in peers for text in (peer.endpoint, peer.snapshot_endpoint) if text)
    return any(isinstance(parse_endpoint(each), TlsEndpoint) for text in texts for each in split_endpoints(text))


def is_attached(site: SiteId, peer: Peer) -> bool:
    """Return whether *site* attaches itself to this one; the endpoints of *peer* must be well-formed."""
    listed = split_endpoints(peer.endpoint) + split_endpoints(peer.snapshot_endpoint)
    return str(AttachedEndpoint(site)) in listed


def _endpoints(site: SiteId, text: object) -> list[Endpoint]:
    if not isinstance(text, str):
        raise ConfigurationError(f"peers[{site}]: an endpoint must be a text, not {type(text).__name__}")
    try:
        check_endpoints(text)
    except ConfigurationError as error:
        raise ConfigurationError(f"peers[{site}]: {error}") from None
    return [parse_endpoint(part) for part in split_endpoints(text)]


def _check(site: SiteId, endpoint: Endpoint, own: OwnSite, mine: Iterable[Endpoint]) -> None:
    if isinstance(endpoint, LocalEndpoint | AttachedEndpoint) and endpoint.site != site:
        own_name = replace(endpoint, site=site)
        raise ConfigurationError(
            f"peers[{site}]: {endpoint} leads to site {endpoint.site!r}: write {own_name}, or name the other site"
        )
    if any(_is_same(endpoint, each) for each in mine):
        raise ConfigurationError(f"peers[{site}]: {endpoint} leads to this site itself: write an endpoint of {site!r}")
    if isinstance(endpoint, TlsEndpoint) and not own.has_tls:
        raise ConfigurationError(
            f"peers[{site}]: {endpoint} needs TLS: set tls_certificate, tls_key and tls_authority, and restart the "
            "servers that run without"
        )


def _place(endpoint: Endpoint) -> str:
    """Return the place where *endpoint* leads; one for tcp:// and tls:// at one port."""
    return str(endpoint) if isinstance(endpoint, LocalEndpoint | AttachedEndpoint) else endpoint.address


def _is_same(endpoint: Endpoint, own: Endpoint) -> bool:
    if isinstance(endpoint, TcpEndpoint) and isinstance(own, TcpEndpoint):
        is_here = endpoint.host == own.host or (own.host in WILDCARDS and endpoint.host in _THIS_MACHINE)
        return is_here and endpoint.port == own.port
    return isinstance(endpoint, IpcEndpoint) and endpoint == own
