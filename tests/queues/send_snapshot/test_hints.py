"""Hints that wake the processes which wait for snapshots."""

import socket
import sys
import threading
from contextlib import ExitStack

import pytest
from sqlalchemy import Engine

from queues import datagrams
from queues.database.transactions import reading
from queues.names import ClientName
from queues.send_snapshot import hints
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there are no datagrams")

POLICY, RULES = ClientName("policy"), ClientName("rules")


@pytest.fixture
def names(site: Engine) -> hints.HintNames:
    with reading(site) as connection:
        return hints.names_at(connection)


def is_taken(name: str) -> bool:
    # To take the name for a moment would keep a receiver from it.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(datagrams._address(name))
        except ConnectionRefusedError:
            return False
    return True


def listening(stack: ExitStack, name: str, number: int) -> threading.Event:
    """Begin to listen, and wait until the receiver has the name with this number."""
    woken = threading.Event()
    stack.enter_context(hints.HintReceiver(name, woken))
    eventually(lambda: is_taken(f"{name} {number}"))
    return woken


def test_a_hint_wakes_every_receiver_of_its_name_and_no_other(names: hints.HintNames) -> None:
    with ExitStack() as stack:
        first, second = (listening(stack, names.transmitter(POLICY), number) for number in range(2))
        other = listening(stack, names.transmitter(RULES), 0)
        server = listening(stack, names.servers(), 0)
        for _ in range(2):
            hints.send(names.transmitter(POLICY))
            assert first.wait(60)
            assert second.wait(60)
            first.clear()
            second.clear()
        assert not other.is_set()
        assert not server.is_set()


def test_two_databases_have_different_names(names: hints.HintNames, new_site) -> None:
    with reading(new_site("lima")) as connection:
        assert hints.names_at(connection) != names


def test_the_end_of_a_receiver_frees_its_name(names: hints.HintNames) -> None:
    with ExitStack() as stack:
        listening(stack, names.servers(), 0)
    assert not is_taken(f"{names.servers()} 0")


def test_a_receiver_without_a_free_name_ends_at_once(names: hints.HintNames) -> None:
    with ExitStack() as stack:
        for number in range(hints.PROCESSES):
            listening(stack, names.servers(), number)
        with hints.HintReceiver(names.servers(), threading.Event()):
            hints.send(names.servers())


def test_a_hint_without_a_receiver_is_lost_without_an_error(names: hints.HintNames) -> None:
    hints.send(names.servers())
