"""The addresses of this machine's network interfaces."""

import socket
from collections.abc import Iterator
from ipaddress import ip_address

import psutil

from lr_server.topology.addresses import Address


def machine_addresses() -> tuple[Address, ...]:
    """Return the addresses of the interfaces that are up, in the order of the interfaces; both IPv4 and IPv6."""
    return tuple(dict.fromkeys(_addresses()))


def _addresses() -> Iterator[Address]:
    states = psutil.net_if_stats()
    for name, found in psutil.net_if_addrs().items():
        if name in states and not states[name].isup:
            continue
        for each in found:
            if each.family in (socket.AF_INET, socket.AF_INET6):
                # A link-local address has its interface after a per cent sign, which says nothing elsewhere.
                yield ip_address(each.address.partition("%")[0])
