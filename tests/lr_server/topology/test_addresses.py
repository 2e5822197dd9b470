"""The endpoints that a server tells the others: reachable ones, in the preferred networks by their bits."""

from collections.abc import Sequence
from ipaddress import ip_address, ip_network

import pytest

from lr_server.topology.addresses import parse_network, reachable
from lr_server.topology.machine import machine_addresses
from queues.errors import ConfigurationError

MACHINE = [
    ip_address(text)
    for text in ("127.0.0.1", "::1", "fe80::1", "192.168.10.4", "192.168.1.7", "10.1.2.3", "fd00::7", "2001:db8::7")
]


def told(*listening: str, networks: Sequence[str] = ()) -> tuple[str, ...]:
    return reachable(listening, MACHINE, [ip_network(text) for text in networks])


def test_a_wildcard_becomes_the_addresses_of_the_machine_the_farther_reaching_first():
    assert told("tcp://0.0.0.0:7400") == (
        "tcp://192.168.10.4:7400",
        "tcp://192.168.1.7:7400",
        "tcp://10.1.2.3:7400",
    )
    assert told("tls://[::]:7400") == (
        "tls://192.168.10.4:7400",
        "tls://192.168.1.7:7400",
        "tls://10.1.2.3:7400",
        "tls://[fd00::7]:7400",
        "tls://[2001:db8::7]:7400",
        "tls://[fe80::1]:7400",
    )


def test_a_machine_without_a_network_tells_its_own_addresses():
    alone = [ip_address("::1"), ip_address("127.0.0.1")]
    assert reachable(["tcp://0.0.0.0:1"], alone, []) == ("tcp://127.0.0.1:1",)
    assert reachable(["tcp://0.0.0.0:1"], [], []) == ("tcp://0.0.0.0:1",)


def test_a_preferred_network_is_compared_by_its_bits_not_as_text():
    assert told("tcp://0.0.0.0:7400", networks=["192.168.1.0/24"]) == ("tcp://192.168.1.7:7400",)
    assert told("tcp://0.0.0.0:7400", networks=["10.0.0.0/15"]) == ("tcp://10.1.2.3:7400",)
    assert told("tcp://[::]:7400", networks=["fd00::/8"]) == ("tcp://[fd00::7]:7400",)


def test_the_order_of_the_networks_counts():
    found = told("tcp://[::]:1", networks=["2001:db8::/32", "10.0.0.0/8", "192.168.0.0/16"])
    assert found == ("tcp://[2001:db8::7]:1", "tcp://10.1.2.3:1", "tcp://192.168.10.4:1", "tcp://192.168.1.7:1")


def test_given_addresses_are_chosen_too_and_names_and_sockets_stay():
    listening = ("ipc:///run/a.sock", "tcp://192.168.10.4:1", "tcp://10.1.2.3:1", "tcp://paris-a.example:1")
    assert told(*listening) == (*listening[1:], listening[0])
    assert told(*listening, networks=["10.0.0.0/8"]) == ("tcp://10.1.2.3:1", "tcp://paris-a.example:1", listening[0])


def test_a_server_without_an_address_in_the_networks_is_refused_in_one_sentence():
    with pytest.raises(ConfigurationError) as refused:
        told("tcp://0.0.0.0:7400", networks=["192.168.100.0/24", "fd00::/8"])
    assert str(refused.value) == (
        "no address of this server is in preferred_network 192.168.100.0/24, fd00::/8: it has 192.168.10.4, "
        "192.168.1.7, 10.1.2.3, 127.0.0.1; correct preferred_network or `listen`"
    )


def test_a_server_that_listens_at_no_address_needs_none():
    assert told(networks=["192.168.100.0/24"]) == ()
    assert told("ipc:///run/a.sock", networks=["192.168.100.0/24"]) == ("ipc:///run/a.sock",)


@pytest.mark.parametrize("text", ["10.1.0.1/16", "192.168.1", "10.1.0.0/33", "paris", "", "fd00::/129"])
def test_a_text_that_is_no_network_is_refused(text: str):
    with pytest.raises(ConfigurationError, match=r"is no network .* write one such as 10.1.0.0/16 or fd00::/8"):
        parse_network(text)


def test_this_machine_has_its_loopback_address():
    assert ip_address("127.0.0.1") in machine_addresses()
