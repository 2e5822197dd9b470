"""`transmitted` shows the entries of a transaction before its commit, on both databases."""

import asyncio
from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Engine, StaticPool, create_engine, event, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker

import queues
from lr_client import LRMessageWithDestinations, RoutingQueueSenderClient
from lrq.testing import Transmitted, transmitted
from queues.database.tables.destinations import tag_sets
from queues.destinations import destination_set
from queues.errors import NotInitializedError, UsageError

CLIENT = RoutingQueueSenderClient("policy")


@pytest.fixture
def connection(site: Engine) -> Iterator[Connection]:
    """Give a connection whose transaction the test rolls back."""
    with site.connect() as opened:
        outer = opened.begin()
        yield opened
        outer.rollback()


def isolated(connection: Connection) -> Session:
    return Session(bind=connection, join_transaction_mode="create_savepoint")


def payloads(session: object) -> list[bytes]:
    return [entry.payload for entry in transmitted(session)]


def test_each_entry_is_shown_with_its_destinations_and_keys(site: Engine):
    with Session(site) as session:
        CLIENT.transmit_log_entry_message(session, b"1", ["tokyo", "lima", "tokyo"])
        CLIENT.transmit_log_entry_message(session, b"2", ["lima"], item_key="rule", partition_key="east")
        RoutingQueueSenderClient("audit").transmit_log_entry_message(session, b"", ["lima"])
        assert transmitted(session) == [
            Transmitted("policy", ("lima", "tokyo"), b"1"),
            Transmitted("policy", ("lima",), b"2", "rule", "east"),
            Transmitted("audit", ("lima",), b""),
        ]


def test_several_entries_of_one_call_keep_their_order(site: Engine):
    messages = [LRMessageWithDestinations(b"%d" % n, ["tokyo", "lima"][: n % 2 + 1]) for n in range(30)]
    with site.connect() as connection:
        CLIENT.transmit_log_entry_messages(connection, messages)
        CLIENT.transmit_log_entry_message(connection, b"30", ["lima"])
        assert payloads(connection) == [b"%d" % n for n in range(31)]


def test_a_client_and_a_destination_select_entries(site: Engine):
    with Session(site) as session:
        CLIENT.transmit_log_entry_message(session, b"1", ["tokyo", "lima"])
        CLIENT.transmit_log_entry_message(session, b"2", ["lima"])
        RoutingQueueSenderClient("audit").transmit_log_entry_message(session, b"3", ["tokyo"])
        assert [each.payload for each in transmitted(session, client="policy", destination="tokyo")] == [b"1"]
        assert [each.payload for each in transmitted(session, client="audit")] == [b"3"]
        assert transmitted(session, client="polic") == []


def test_committed_entries_are_not_of_this_transaction(site: Engine):
    with Session(site) as session:
        CLIENT.transmit_log_entry_message(session, b"1", ["tokyo"])
        session.commit()
        assert transmitted(session) == []
        CLIENT.transmit_log_entry_message(session, b"2", ["tokyo"])
        assert payloads(session) == [b"2"]
        session.rollback()
        assert transmitted(session) == []


def test_entries_survive_a_commit_within_a_transaction_that_the_test_rolls_back(connection: Connection):
    with isolated(connection) as session:
        CLIENT.transmit_log_entry_message(session, b"1", ["tokyo"])
        session.commit()
        assert payloads(session) == [b"1"]
        with session.begin_nested():
            CLIENT.transmit_log_entry_message(session, b"2", ["tokyo"])
        assert payloads(session) == [b"1", b"2"]
        session.rollback()
        assert payloads(session) == payloads(connection) == [b"1"]


def test_entries_of_a_rolled_back_savepoint_are_gone(site: Engine):
    with Session(site) as session:
        lost = session.begin_nested()
        CLIENT.transmit_log_entry_message(session, b"1", ["tokyo"])
        lost.rollback()
        assert transmitted(session) == []
        CLIENT.transmit_log_entry_message(session, b"2", ["tokyo"])
        assert payloads(session) == [b"2"]


def test_the_next_test_sees_nothing_of_this_one(site: Engine):
    for payload in (b"1", b"2"):
        with site.connect() as connection:
            outer = connection.begin()
            with isolated(connection) as session:
                CLIENT.transmit_log_entry_message(session, payload, ["tokyo"])
                session.commit()
                assert payloads(session) == [payload]
            outer.rollback()


def test_a_look_begins_no_transaction(site: Engine):
    with Session(site) as session, site.connect() as connection:
        assert transmitted(session) == transmitted(connection) == []
        assert not session.in_transaction()
        assert not connection.in_transaction()


def test_pending_changes_are_flushed_because_they_may_transmit(site: Engine):
    class Base(DeclarativeBase): ...

    class Rule(Base):
        __tablename__ = "rules"
        name: Mapped[str] = mapped_column(primary_key=True)

    Base.metadata.create_all(site)

    def send(_mapper: object, connection: Connection, rule: Rule) -> None:
        CLIENT.transmit_log_entry_message(connection, rule.name.encode(), ["tokyo"])

    event.listen(Rule, "after_insert", send)
    with Session(site) as session:
        session.add(Rule(name="a"))
        assert payloads(session) == [b"a"]


def test_a_scoped_session_works(site: Engine):
    session = scoped_session(sessionmaker(site))
    CLIENT.transmit_log_entry_message(session(), b"1", ["tokyo"])
    assert payloads(session) == [b"1"]
    session.remove()


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_an_asynchronous_session_runs_the_look(site: Engine):
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

    async def look() -> list[Transmitted]:
        engine = create_async_engine(site.url.set(drivername="sqlite+aiosqlite"))
        async with AsyncSession(engine) as session:
            await session.run_sync(CLIENT.transmit_log_entry_message, b"1", ["tokyo"])
            found = await session.run_sync(transmitted)
            with pytest.raises(UsageError, match="the session is asynchronous: pass the method"):
                transmitted(session)
        await engine.dispose()
        return found

    assert [entry.payload for entry in asyncio.run(look())] == [b"1"]


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_an_application_s_own_engine_works(site: Engine):
    engine = create_engine(site.url)
    with Session(engine) as session:
        assert transmitted(session) == []
        CLIENT.transmit_log_entry_message(session, b"1", ["tokyo"])
        assert payloads(session) == [b"1"]
    engine.dispose()


def test_a_database_in_memory_shows_the_entries_that_transmit_has_written():
    engine = queues.create_engine("sqlite://", poolclass=StaticPool)
    queues.initialize(engine, site_id="paris")
    for payload in (b"1", b"2"):
        with Session(engine) as session:
            assert transmitted(session) == []
            session.execute(text("SELECT 1"))
            assert transmitted(session) == []
            CLIENT.transmit_log_entry_message(session, payload, ["tokyo"])
            assert payloads(session) == [payload]
            session.commit()
            assert transmitted(session) == []
    engine.dispose()


def test_a_shared_destination_set_is_named(site: Engine):
    number, destinations = destination_set(CLIENT.client_name, ["tokyo", "lima"])
    with site.begin() as connection:
        stored = {"number": number, "client": "policy", "destinations": destinations, "shared": True, "last_seq": 0}
        connection.execute(tag_sets.insert().values(stored))
    with Session(site) as session:
        CLIENT.transmit_log_entry_message(session, b"1", ["tokyo", "lima"])
        assert transmitted(session) == [Transmitted("policy", ("lima", "tokyo"), b"1")]


def test_headers_are_shown(site: Engine):
    with Session(site) as session:
        CLIENT.transmit_log_entry_message(session, b"1", ["tokyo"], headers={"a": "b"})
        assert transmitted(session) == [Transmitted("policy", ("tokyo",), b"1", headers={"a": "b"})]


def test_entries_of_other_transactions_are_not_shown(site: Engine, dialect: str):
    with Session(site) as other, Session(site) as session:
        CLIENT.transmit_log_entry_message(other, b"1", ["tokyo"])
        if dialect == "sqlite":  # one writer at a time
            other.commit()
        CLIENT.transmit_log_entry_message(session, b"2", ["tokyo"])
        assert payloads(session) == [b"2"]


def test_the_connection_of_a_driver_shows_the_entries_too(site: Engine):
    with site.connect() as connection:
        driver = connection.connection.dbapi_connection
        assert driver is not None
        assert transmitted(driver) == []
        CLIENT.transmit_log_entry_message(connection, b"1", ["tokyo"])
        assert transmitted(driver, client="policy") == [Transmitted("policy", ("tokyo",), b"1")]
        connection.commit()
        assert transmitted(driver) == []


def test_a_wrong_object_is_named(site: Engine):
    with pytest.raises(UsageError, match="pass its Session or Connection, not an Engine"):
        transmitted(site)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_database_without_tables_is_named(new_database, dialect: str):
    engine = queues.create_engine(new_database())
    with engine.begin() as connection, pytest.raises(NotInitializedError, match="run `lrq init`"):
        transmitted(connection)
    engine.dispose()
