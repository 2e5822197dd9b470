"""Entries from SQL are those of Python: the same order, the same destinations, the same tokens, the same rollbacks."""

import pytest
from sqlalchemy import Connection, Engine, text

from lr_client import RoutingQueueSenderClient
from queues.browse.api import Wanted, browse
from queues.names import SEND_LOG_ENTRIES
from queues.positions import PositionToken
from tests.queues.reading import Reader
from tests.queues.send_log.sql_calls import sql_transmit

client = RoutingQueueSenderClient("policy")


def python(connection: Connection, payload: bytes, *destinations: str) -> str:
    return str(client.transmit_log_entry_message(connection, payload, destinations or ("tokyo",)))


def read(reader: Reader) -> list[list[bytes]]:
    """Return the payloads of each source transaction, in order."""
    found: dict[int, list[bytes]] = {}
    for row in reader.drain():
        found.setdefault(row.transaction, []).append(row.payload)
    return list(found.values())


def test_entries_of_one_transaction_keep_their_order_between_those_of_python(site: Engine, reader: Reader) -> None:
    with site.begin() as connection:
        python(connection, b"1")
        sql_transmit(connection, b"2", ["tokyo"])
        python(connection, b"3")
        sql_transmit(connection, b"4", ["tokyo"])
        python(connection, b"5")
    with site.begin() as connection:
        python(connection, b"6")
    assert read(reader) == [[b"1", b"2", b"3", b"4", b"5"], [b"6"]]


def test_a_rollback_also_to_a_savepoint_removes_the_entries(site: Engine, reader: Reader) -> None:
    with site.connect() as connection:
        sql_transmit(connection, b"lost", ["tokyo"])
        connection.rollback()
        sql_transmit(connection, b"kept", ["tokyo"])
        python(connection, b"kept too")
        undone = connection.begin_nested()
        sql_transmit(connection, b"undone", ["tokyo"])
        undone.rollback()
        python(connection, b"the last")
        connection.commit()
    assert [row.payload for row in reader.drain()] == [b"kept", b"kept too", b"the last"]


def test_the_token_is_that_of_python(site: Engine) -> None:
    with site.begin() as connection:
        first = PositionToken.parse(python(connection, b"1"))
        found = sql_transmit(connection, b"2", ["tokyo"])
    token = PositionToken.parse(found)
    assert str(token) == found
    assert (token.site, token.client, token.branch, token.timeline) == ("paris", "policy", first.branch, "")
    assert token.transaction == first.transaction + (1 if site.dialect.name == "sqlite" else 0)


def test_python_and_sql_may_give_a_set_two_numbers_and_each_site_gets_its_entries(site: Engine, reader: Reader) -> None:
    with site.begin() as connection:
        for number in range(40):
            payload, sets = b"%d" % number, (["tokyo", "lima"], ["lima"], ["lima", "tokyo", "lima"])[number % 3]
            if number % 2:
                sql_transmit(connection, payload, sets)
            else:
                python(connection, payload, *sets)
    everything = [b"%d" % number for number in range(40)]
    reader.drain()
    assert reader.owed("lima") == everything
    assert reader.owed("tokyo") == [each for each in everything if int(each) % 3 != 1]
    with site.begin() as connection:
        sql_transmit(connection, b"shared", ["tokyo", "lima"])
        python(connection, b"shared too", "lima", "tokyo")
        shared = connection.execute(text("SELECT count(*) FROM lrq_tag_sets WHERE shared")).scalar_one()
    assert shared == 2
    shown = browse(site, SEND_LOG_ENTRIES, Wanted(everything=True)).entries[-2:]
    assert {entry.tags for entry in shown} == {("lrq_logentry_lima", "lrq_logentry_tokyo")}


def test_keys_and_headers_are_stored_and_no_headers_are_none(site: Engine) -> None:
    with site.begin() as connection:
        sql_transmit(connection, b"", ["tokyo"], item_key="i", partition_key="p", headers={"b": "1", "a": "é"})
        sql_transmit(connection, b"\0\xff", ["tokyo"], headers={})
        partition = "_0" if connection.dialect.name == "sqlite" else ""
        found = connection.execute(
            text(f"SELECT payload, item_key, partition_key, headers FROM lrq_log_entries{partition} ORDER BY id")
        ).all()
    assert [(bytes(row[0]), *row[1:]) for row in found][1] == (b"\0\xff", None, None, None)
    assert (bytes(found[0][0]), *found[0][1:3]) == (b"", "i", "p")
    assert found[0][3].replace(" ", "") == '{"a":"é","b":"1"}'


@pytest.mark.parametrize("last", [b"sql", b"python"])
def test_entries_of_other_connections_are_separate_transactions(site: Engine, reader: Reader, last: bytes) -> None:
    with site.connect() as one, site.connect() as other:
        sql_transmit(one, b"1", ["tokyo"])
        one.commit()
        python(other, b"2")
        other.commit()
        (sql_transmit(one, last, ["tokyo"]) if last == b"sql" else python(one, last))
        one.commit()
    assert read(reader) == [[b"1"], [b"2"], [last]]
