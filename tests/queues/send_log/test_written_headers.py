"""Headers are written with their entries, by each statement of the outboxes."""

import pytest
from sqlalchemy import Engine, text

from lr_client import LRMessageWithDestinations, RoutingQueueSenderClient
from queues.errors import InvalidHeadersError
from tests.queues.reading import Reader

client = RoutingQueueSenderClient("policy")
TABLES = {"sqlite": "lrq_log_entries_0", "postgresql": "lrq_log_entries"}


def stored(site: Engine) -> list[tuple[str, str | None, str | None, str | None]]:
    """Return payload, item key, partition key and headers of all entries, oldest first."""
    statement = f"SELECT payload, item_key, partition_key, headers FROM {TABLES[site.dialect.name]} ORDER BY id"
    with site.connect() as connection:
        return [(bytes(row[0]).decode(), *row[1:]) for row in connection.execute(text(statement))]


def transmit_three(site: Engine) -> None:
    """Transmit three entries in one transaction, the middle one with headers and keys."""
    with site.begin() as connection:
        client.transmit_log_entry_message(connection, b"1", ["tokyo"])
        client.transmit_log_entry_message(
            connection, b"2", ["tokyo"], item_key="i", partition_key="p", headers={"b": "2", "a": "é"}
        )
        client.transmit_log_entry_message(connection, b"3", ["tokyo"], headers={})


EXPECTED = [("1", None, None, None), ("2", "i", "p", '{"a":"é","b":"2"}'), ("3", None, None, None)]


def test_each_entry_keeps_its_own_headers(site: Engine) -> None:
    transmit_three(site)
    assert stored(site) == EXPECTED


def test_an_entry_for_a_known_set_keeps_its_headers_too(site: Engine, reader: Reader) -> None:
    # The second time the dictionary shares the set, and PostgreSQL's later calls reuse the first one's findings.
    for _ in range(3):
        transmit_three(site)
        reader.drain()
    assert stored(site) == 3 * EXPECTED


@pytest.mark.parametrize("others", ["tokyo", "lima"], ids=["one set", "several sets"])
def test_messages_of_one_call_keep_their_own_headers(site: Engine, others: str) -> None:
    messages = [
        LRMessageWithDestinations(b"1", ["tokyo"], headers={"n": "1"}),
        LRMessageWithDestinations(b"2", [others], partition_key="p"),
        LRMessageWithDestinations(b"3", ["tokyo"], item_key="i", headers={"n": "3"}),
    ]
    with site.begin() as connection:
        client.transmit_log_entry_messages(connection, messages)
    assert stored(site) == [("1", None, None, '{"n":"1"}'), ("2", None, "p", None), ("3", "i", None, '{"n":"3"}')]


def test_refused_headers_write_nothing(site: Engine) -> None:
    with site.begin() as connection:
        with pytest.raises(InvalidHeadersError):
            client.transmit_log_entry_message(connection, b"x", ["tokyo"], headers={"a": 1})  # type: ignore[dict-item]
        many = [
            LRMessageWithDestinations(b"y", ["tokyo"]),
            LRMessageWithDestinations(b"z", ["tokyo"], headers={"": ""}),
        ]
        with pytest.raises(InvalidHeadersError):
            client.transmit_log_entry_messages(connection, many)
    assert stored(site) == []


def test_a_rollback_removes_entries_with_headers(site: Engine) -> None:
    with site.connect() as connection, connection.begin() as transaction:
        client.transmit_log_entry_message(connection, b"x", ["tokyo"], headers={"a": "b"})
        transaction.rollback()
    assert stored(site) == []
