"""The endpoints that a server tells the other servers of its site. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from lr_server.topology.rules import WILDCARDS
from queues.errors import ConfigurationError
from sink.transport.endpoints import IpcEndpoint, LocalEndpoint, TcpEndpoint, parse_endpoint

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

#: The most addresses that one sentence names.
_NAMED: Final = 6


def parse_network(text: str) -> Network:
    """Read a network such as 10.1.0.0/16 or fd00::/8; raise `ConfigurationError` for another text."""
    try:
        return ip_network(text)
    except ValueError as error:
        raise ConfigurationError(
            f"{text!r} is no network ({error}): write one such as 10.1.0.0/16 or fd00::/8"
        ) from None


def has_wildcard(listening: Iterable[str]) -> bool:
    """Return whether an endpoint of *listening* stands for every address of the machine."""
    endpoints = (parse_endpoint(text) for text in listening)
    return any(isinstance(each, TcpEndpoint) and each.host in WILDCARDS for each in endpoints)


def reachable(listening: Iterable[str], machine: Sequence[Address], networks: Sequence[Network]) -> tuple[str, ...]:
    """Return the endpoints of *listening* as other machines reach them, the best one first.

    The addresses of *machine* take the place of 0.0.0.0 or [::], those that reach farthest first. With *networks*,
    addresses outside all of them are left out, and the order of the networks counts. Names of hosts and Unix sockets
    stay. Raises `ConfigurationError` if no address is in *networks*.
    """
    endpoints = [parse_endpoint(text) for text in listening]
    usable = machine if networks else [each for each in machine if not each.is_loopback] or machine
    over_tcp = [one for each in endpoints if isinstance(each, TcpEndpoint) for one in _addressed(each, usable)]
    if networks:
        fitting = [each for each in over_tcp if _rank(each, networks) < len(networks)]
        if over_tcp and not fitting:
            raise ConfigurationError(_without(over_tcp, networks))
        over_tcp = sorted(fitting, key=lambda each: _rank(each, networks))
    others = [each for each in endpoints if isinstance(each, IpcEndpoint | LocalEndpoint)]
    return tuple(dict.fromkeys(str(each) for each in [*over_tcp, *others]))


def _addressed(endpoint: TcpEndpoint, machine: Sequence[Address]) -> list[TcpEndpoint]:
    """Return *endpoint*, with addresses of the machine in the place of a wildcard, which [::] has for both kinds."""
    if endpoint.host not in WILDCARDS:
        return [endpoint]
    kinds = (IPv4Address,) if endpoint.host == "0.0.0.0" else (IPv4Address, IPv6Address)
    fitting = sorted((each for each in machine if isinstance(each, kinds)), key=_nearness)
    return [replace(endpoint, host=str(each)) for each in fitting] or [endpoint]


def _nearness(address: Address) -> tuple[bool, bool, bool]:
    """Return a key that puts addresses first that other machines are likely to reach."""
    return address.is_loopback, address.is_link_local, isinstance(address, IPv6Address)


def _rank(endpoint: TcpEndpoint, networks: Sequence[Network]) -> int:
    """Return the number of the first network that contains *endpoint*; 0 for the name of a host."""
    try:
        address = ip_address(endpoint.host)
    except ValueError:
        return 0
    return next((number for number, network in enumerate(networks) if address in network), len(networks))


def _without(over_tcp: Sequence[TcpEndpoint], networks: Sequence[Network]) -> str:
    hosts = list(dict.fromkeys(each.host for each in over_tcp))
    more = f" and {len(hosts) - _NAMED} more" if len(hosts) > _NAMED else ""
    return (
        f"no address of this server is in preferred_network {', '.join(map(str, networks))}: it has "
        f"{', '.join(hosts[:_NAMED])}{more}; correct preferred_network or `listen`"
    )
