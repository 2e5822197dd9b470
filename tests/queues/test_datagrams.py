"""Datagrams stay hints in a process that has used all its file descriptors."""

import sys
from collections.abc import Iterator
from itertools import count

import pytest
from sqlalchemy import Engine, text

from lr_client import RoutingQueueSenderClient
from queues import datagrams
from tests.descriptors import no_free_descriptor
from tests.queues.reading import Reader

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there are no datagrams")

_NUMBERS = count()


@pytest.fixture(autouse=True)
def _fresh_process() -> Iterator[None]:
    """Forget the socket of earlier tests, as a new process has none."""
    datagrams._sender.cache_clear()
    yield
    datagrams._sender.cache_clear()


def test_datagrams_are_sent_again_once_a_descriptor_is_free() -> None:
    name = f"test {next(_NUMBERS)} of descriptors"
    receiver = datagrams.receiver(name)
    assert receiver is not None
    with receiver:
        with no_free_descriptor():
            datagrams.send(name, b"lost")
        datagrams.send(name, b"sent")
        assert receiver.recv(10) == b"sent"


def test_no_receiver_is_made_without_a_free_descriptor() -> None:
    with no_free_descriptor():
        assert datagrams.receiver(f"test {next(_NUMBERS)} of descriptors") is None


# A poll of a PostgreSQL connection fails under this limit, which is lower than the number of open descriptors.
@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_an_application_transmits_without_a_free_descriptor(site: Engine, reader: Reader) -> None:
    client = RoutingQueueSenderClient("policy")
    with site.begin() as connection:
        # A database opens its files at the first write.
        connection.execute(text("UPDATE lrq_site SET site_id = site_id"))
        with no_free_descriptor():
            client.transmit_log_entry_message(connection, b"a", ["tokyo"])
    assert [row.payload for row in reader.drain()] == [b"a"]
