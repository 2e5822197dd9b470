"""An entry that a trigger of others leaves out fails the call, so nothing is lost in silence."""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import psycopg
import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from lr_client.sender import LRMessageWithDestinations, RoutingQueueSenderClient
from queues.clock import now_us
from queues.database import leases
from queues.destinations import destination_set
from queues.errors import LrqError, SetupError
from queues.names import ClientName
from queues.send_log.opening import open_store
from queues.send_log.outbox import NewEntry
from queues.send_log.producers import ProducerKey, Production, RequestVerdict, StoreOutcome
from queues.send_log.staging import Epoch, PartStaging
from tests.left_out import rows_left_out
from tests.queues.reading import Reader

POLICY = ClientName("policy")
client = RoutingQueueSenderClient("policy")
Message = LRMessageWithDestinations
WORDS = "left rows out of lrq_log_entries(_[0-9])?: drop it, or let the trigger fire AFTER"

SETS = ["tokyo"], ["lima"]
CALLS = {
    "one": [Message(b"lost", ["tokyo"])],
    "one with headers": [Message(b"lost", ["tokyo"], headers={"kind": "x"})],
    "alike": [Message(payload, ["tokyo"]) for payload in (b"a", b"lost", b"c")],
    "of several sets": [Message(payload, to) for payload in (b"a", b"lost") for to in SETS],
    "with keys": [Message(payload, ["tokyo"], item_key="k") for payload in (b"a", b"lost")],
    "with headers": [Message(payload, to, headers={"kind": "x"}) for payload in (b"a", b"lost") for to in SETS],
}


@contextmanager
def entries_left_out(engine: Engine) -> Iterator[None]:
    """Leave out each entry with four bytes, as a trigger on the table of new entries."""
    table = "lrq_log_entries"
    if engine.dialect.name == "sqlite":
        with engine.connect() as connection:
            table += f"_{connection.execute(text('SELECT slot FROM lrq_log_head')).scalar_one()}"
    with rows_left_out(engine, table, "length(NEW.payload) = 4"):
        yield


def logged(engine: Engine) -> list[bytes]:
    lease = leases.acquire(engine, "server", "me", ttl=600)
    assert lease is not None
    return [row.payload for row in Reader(engine, lease).drain()]


def transmit(engine: Engine, messages: Sequence[Message]) -> None:
    with Session(engine) as session, session.begin():
        client.transmit_log_entry_messages(session, messages)


@pytest.mark.parametrize("messages", CALLS.values(), ids=CALLS)
def test_a_call_whose_entries_are_left_out_in_part_fails(site: Engine, messages: Sequence[Message]) -> None:
    with entries_left_out(site), pytest.raises(SetupError, match=WORDS):
        transmit(site, messages)
    transmit(site, messages)
    assert logged(site) == [message.payload for message in messages]


def test_a_later_call_of_a_transaction_fails_too(site: Engine) -> None:
    transmit(site, [Message(b"first", ["tokyo"])])
    with entries_left_out(site), Session(site) as session, session.begin():
        client.transmit_log_entry_message(session, b"kept!", ["tokyo"])
        with pytest.raises(SetupError, match=WORDS):
            client.transmit_log_entry_message(session, b"lost", ["tokyo"])
    assert logged(site) == [b"first", b"kept!"]


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_transaction_that_commits_after_the_error_holds_nothing_of_the_call(site: Engine) -> None:
    """PostgreSQL ends such a transaction by itself."""
    with entries_left_out(site), Session(site) as session, session.begin():
        with pytest.raises(SetupError, match=WORDS):
            client.transmit_log_entry_messages(session, CALLS["alike"])
        client.transmit_log_entry_message(session, b"later", ["tokyo"])
    transmit(site, [Message(b"last", ["tokyo"])])
    assert logged(site) == [b"later", b"last"]
    with site.connect() as connection:
        assert connection.execute(text("SELECT last_id FROM lrq_log_head")).scalar_one() == 2


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
@pytest.mark.parametrize("messages", [CALLS["one"], CALLS["alike"]], ids=["one", "alike"])
def test_a_call_on_a_connection_of_the_driver_fails_too(site: Engine, messages: Sequence[Message]) -> None:
    url = site.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with entries_left_out(site), psycopg.connect(url) as connection, pytest.raises(SetupError, match=WORDS):
        client.transmit_log_entry_messages(connection, messages)


SQL = {
    "postgresql": "SELECT lrq_transmit('policy', '{}'::bytea, ARRAY['tokyo'])",
    "sqlite": "INSERT INTO lrq_transmit (client, payload, destinations) VALUES ('policy', CAST('{}' AS BLOB), 'tokyo')",
}


def test_an_entry_of_sql_that_is_left_out_is_an_error(site: Engine) -> None:
    write = SQL[site.dialect.name]
    with entries_left_out(site):
        with site.begin() as connection:
            connection.execute(text(write.format("kept!")))
        with pytest.raises(DBAPIError, match=WORDS), site.begin() as connection:
            connection.execute(text(write.format("lost")))
    assert logged(site) == [b"kept!"]


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_change_of_a_followed_table_fails_if_its_entry_is_left_out(site: Engine) -> None:
    with site.begin() as connection:
        connection.execute(text("CREATE TABLE orders (id integer PRIMARY KEY)"))
        connection.execute(text("SELECT lrq_follow('orders', 'policy', ARRAY['tokyo'])"))
    add = text("INSERT INTO orders VALUES (1)")
    with rows_left_out(site, "lrq_log_entries"), pytest.raises(DBAPIError, match=WORDS), site.begin() as connection:
        connection.execute(add)
    with site.begin() as connection:
        connection.execute(add)
    assert len(logged(site)) == 1


def production(sequence: int, *payloads: bytes, producer: str = "p") -> Production:
    sites = destination_set(POLICY, ["tokyo"])
    return Production(ProducerKey(POLICY, producer), sequence, [NewEntry(payload, sites) for payload in payloads])


@pytest.mark.parametrize("others", [[], [production(1, b"b", producer="q")]], ids=["alone", "with others"])
def test_a_request_whose_entries_are_left_out_is_refused_and_can_be_repeated(
    site: Engine, others: Sequence[Production]
) -> None:
    asked = [production(1, b"a", b"lost"), *others]
    with closing(open_store(site)) as store:
        with entries_left_out(site):
            refused = reasons(store.store, asked)
            assert re.search(WORDS, refused[0])
            assert "integer" not in refused[0], "the words of the database's own error say nothing"
        outcomes = store.store(asked, now_us())
    stored = {RequestVerdict.STORED, RequestVerdict.REPEATED}
    assert outcomes[0].verdict is RequestVerdict.STORED
    assert {outcome.verdict for outcome in outcomes} <= stored
    assert sorted(logged(site)) == sorted([b"a", b"lost", *[b"b"] * len(others)])


def reasons(store, asked: Sequence[Production]) -> list[str]:
    """Return why the requests are refused: one by one, or all by an error."""
    try:
        outcomes: list[StoreOutcome] = store(asked, now_us())
    except LrqError as error:
        return [str(error)] * len(asked)
    return [outcome.reason for outcome in outcomes]


def test_rows_of_a_task_that_are_left_out_while_staged_fail_the_task(site: Engine) -> None:
    part = PartStaging(site, Epoch(POLICY, "job", 1))
    part.add(NewEntry(b"x", destination_set(POLICY, ["tokyo"])))
    with rows_left_out(site, "lrq_log_staged_blocks"), pytest.raises(SetupError, match="rows out of lrq_log_staged"):
        part.finish()
