"""Errors are the same on connections of every kind, with the driver's error as their cause."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import asyncpg
import psycopg
import pytest
from django.db import Error as DjangoError
from sqlalchemy import Engine, text

import queues
from lr_client import LRMessageWithDestinations, RoutingQueueSenderClient
from queues.browse.send_log import browsing
from queues.errors import (
    DestinationsError,
    InvalidHeadersError,
    InvalidKeyError,
    InvalidNameError,
    LinkEndedError,
    LrqError,
    NotInitializedError,
    PayloadTooLargeError,
    PayloadTypeError,
    SetupError,
    StoreUnavailableError,
    UnknownDestinationError,
)
from queues.names import ClientName, SiteId
from queues.send_log import links
from queues.send_log.call_limits import CALL_BYTES
from queues.send_log.known_sites import KnownSites, record_known
from queues.send_log.port import SessionKey
from queues.states import LinkWish
from tests.lr_client.connections.applications import POSTGRESQL, SQLITE, Application, Open, file_of, libpq, run

KINDS = [("sqlite", name) for name in SQLITE] + [("postgresql", name) for name in POSTGRESQL]
every_kind = pytest.mark.parametrize(("dialect", "kind"), KINDS, indirect=["dialect"])
WRONG: list[tuple[type[LrqError], dict[str, Any]]] = [
    (InvalidNameError, {"to": ("to kyo",)}),
    (DestinationsError, {"to": ()}),
    (PayloadTypeError, {"payload": "text"}),
    (InvalidKeyError, {"item_key": ""}),
    (InvalidKeyError, {"partition_key": "a\0b"}),
    (InvalidHeadersError, {"headers": {"": "x"}}),
]


@pytest.fixture
def opening(dialect: str, kind: str, settings_of_django: None) -> Open:
    """Give the opener of the application of this kind."""
    return {"sqlite": SQLITE, "postgresql": POSTGRESQL}[dialect][kind]


def count(site: Engine) -> int:
    table = "lrq_log_entries_0" if site.dialect.name == "sqlite" else "lrq_log_entries"
    with site.connect() as connection:
        return connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one()


@every_kind
def test_wrong_arguments_are_refused_before_the_database_is_asked(site: Engine, opening: Open) -> None:
    async def application(app: Application) -> None:
        async with app.transaction():
            for error, wrong in WRONG:
                with pytest.raises(error):
                    await app.transmit(**{"payload": b"x", **wrong})
            # The transaction still serves, even on PostgreSQL.
            await app.transmit(b"one")

    run(opening, site, application)
    assert count(site) == 1


def has_own_cause(error: BaseException) -> bool:
    """Tell whether the error was made by a driver, and not by lrq itself."""
    return error.__cause__ is not None


@every_kind
def test_entries_for_an_ended_link_are_refused_as_a_whole(site: Engine, opening: Open, kind: str) -> None:
    with site.begin() as connection:
        links.set_wish(connection, [SessionKey(ClientName("policy"), SiteId("tokyo"))], LinkWish.DRAINING)

    async def application(app: Application) -> None:
        async with app.transaction(fails=True):
            with pytest.raises(LinkEndedError, match="has ended: leave the site out"):
                await app.transmit(b"x", to=("lima", "tokyo"))
        async with app.transaction(fails=True):
            with pytest.raises(LinkEndedError):
                await app.transmit_all(
                    LRMessageWithDestinations(b"1", ["lima"]), LRMessageWithDestinations(b"2", ["tokyo"])
                )
        async with app.transaction():
            await app.transmit(b"x", to=("lima",))

    run(opening, site, application)
    with site.begin() as connection:
        sizes = browsing(connection).count(connection, None, 10)
    assert sizes == 1


@pytest.mark.parametrize(("dialect", "kind"), [("sqlite", name) for name in SQLITE], indirect=["dialect"])
def test_a_refused_call_leaves_no_entry_though_the_application_commits(site: Engine, opening: Open, kind: str) -> None:
    good, own = (LRMessageWithDestinations(b"part", [to]) for to in ("lima", "paris"))

    async def application(app: Application) -> None:
        async with app.transaction():
            await app.transmit(b"1")
            with pytest.raises(UnknownDestinationError):
                await app.transmit_all(good, own)
            await app.transmit_all(*(LRMessageWithDestinations(each, ["lima"]) for each in (b"2", b"3")))
        async with app.transaction():
            with pytest.raises(UnknownDestinationError):
                await app.transmit_all(good, own)
            await app.transmit(b"4")

    run(opening, site, application)
    with site.connect() as connection:
        rows = connection.execute(text("SELECT payload, transaction_id FROM lrq_log_entries_0 ORDER BY id")).all()
    assert [bytes(row.payload) for row in rows] == [b"1", b"2", b"3", b"4"]
    first, *_, last = (row.transaction_id for row in rows)
    assert [row.transaction_id == first for row in rows] == [True, True, True, False]
    assert last != first


@every_kind
def test_the_own_site_and_unknown_sites_in_strict_mode_are_refused(site: Engine, opening: Open, kind: str) -> None:
    with site.begin() as connection:
        record_known(connection, KnownSites(frozenset({SiteId("tokyo")}), known_only=True))

    async def application(app: Application) -> list[BaseException]:
        refused: list[BaseException] = []
        for to, words in ((("tokyo", "paris"), "this site itself"), (("tokio",), "no peer of")):
            async with app.transaction(fails=True):
                with pytest.raises(UnknownDestinationError, match=words) as raised:
                    await app.transmit(b"x", to)
                refused.append(raised.value)
        async with app.transaction():
            await app.transmit(b"one", ("tokyo",))
        return refused

    refused = run(opening, site, application)
    is_sqlalchemy = any(word in kind for word in ("ession", "Connection")) and "of-psycopg" not in kind
    assert [has_own_cause(error) for error in refused] == [not is_sqlalchemy] * 2
    assert count(site) == 1


@every_kind
def test_a_database_without_tables_is_refused_with_the_command(new_database: Callable[[], str], opening: Open) -> None:
    engine = queues.create_engine(new_database())

    async def application(app: Application) -> None:
        async with app.transaction(fails=True):
            with pytest.raises(NotInitializedError, match="run `lrq init`") as raised:
                await app.transmit(b"x")
            assert has_own_cause(raised.value)

    run(opening, engine, application)
    engine.dispose()


@every_kind
def test_a_payload_above_the_limit_of_the_database_is_refused_before(site: Engine, opening: Open, kind: str) -> None:
    large = bytes(CALL_BYTES + 1)
    sender = RoutingQueueSenderClient("policy", max_payload_bytes=len(large))
    on_psycopg = ("Session", "Session-of-client-cursors", "scoped_session", "Connection", "AsyncSession-psycopg")
    is_direct = kind in on_psycopg or ("aiosqlite" in kind and kind != "aiosqlite")

    async def transmit(app: Application) -> None:
        if app.is_async:
            await sender.atransmit_log_entry_message(app.given, large, ["tokyo"])
        else:
            sender.transmit_log_entry_message(app.given, large, ["tokyo"])

    async def application(app: Application) -> None:
        async with app.transaction(fails=True):
            if is_direct:
                await transmit(app)
                return
            with pytest.raises(PayloadTooLargeError, match="16777217 bytes, the limit is 16777216"):
                await transmit(app)

    run(opening, site, application)


@pytest.mark.parametrize(("dialect", "kind"), [("postgresql", "psycopg"), ("sqlite", "sqlite3")], indirect=["dialect"])
def test_the_database_takes_a_payload_of_the_limit(site: Engine, opening: Open) -> None:
    async def application(app: Application) -> None:
        async with app.transaction():
            await app.transmit(bytes(CALL_BYTES))
            await app.transmit_all(*[LRMessageWithDestinations(bytes(CALL_BYTES), ["tokyo"])] * 2)

    run(opening, site, application)
    assert count(site) == 3


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
@pytest.mark.parametrize("kind", ["psycopg", "asyncpg", "Django", "AsyncConnection-of-psycopg"])
def test_a_lost_connection_means_an_unavailable_store(site: Engine, opening: Open) -> None:
    end_all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"

    refused: list[StoreUnavailableError] = []

    async def lose_connection(app: Application) -> None:
        async with app.transaction():
            await app.transmit(b"x")
            with site.connect() as connection:
                connection.execute(text(f"{end_all} AND pid <> pg_backend_pid()"))
            for _ in range(2):
                with pytest.raises(StoreUnavailableError) as raised:
                    await app.transmit(b"y")
                refused.append(raised.value)
            raise RuntimeError

    async def application(app: Application) -> None:
        # The end of the block fails too, with an error of the library.
        with pytest.raises((RuntimeError, psycopg.Error, asyncpg.PostgresError, asyncpg.InterfaceError, DjangoError)):
            await lose_connection(app)

    run(opening, site, application)
    assert len(refused) == 2


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_role_without_the_right_is_refused_with_the_command(site: Engine) -> None:
    client, role = RoutingQueueSenderClient("policy"), "lrq_nobody"
    with psycopg.connect(libpq(site)) as connection:
        connection.execute(f"CREATE ROLE {role}")
        connection.execute(f"GRANT USAGE ON SCHEMA public TO {role}")
        connection.execute(f"SET ROLE {role}")
        with pytest.raises(SetupError, match="run `lrq grant ROLE --as sender`") as raised:
            client.transmit_log_entry_message(connection, b"x", ["tokyo"])
        assert isinstance(raised.value.__cause__, psycopg.errors.InsufficientPrivilege)
        connection.rollback()


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
@pytest.mark.parametrize("kind", ["AsyncConnection-asyncpg"])
def test_a_role_without_the_right_is_refused_through_sqlalchemy_too(site: Engine, opening: Open) -> None:
    async def application(app: Application) -> None:
        async with app.transaction(fails=True):
            for statement in (
                "CREATE ROLE lrq_reader",
                "GRANT USAGE ON SCHEMA public TO lrq_reader",
                "GRANT SELECT ON lrq_site, lrq_known_sites, lrq_link_wishes, lrq_link_changes TO lrq_reader",
                "SET LOCAL ROLE lrq_reader",
            ):
                await app.given.execute(text(statement))
            with pytest.raises(SetupError, match="run `lrq grant ROLE --as sender`") as raised:
                await app.transmit(b"x")
            assert has_own_cause(raised.value)

    run(opening, site, application)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_locked_database_is_unavailable(site: Engine) -> None:
    client = RoutingQueueSenderClient("policy")
    with (
        site.begin() as holder,
        closing(sqlite3.connect(file_of(site), timeout=0)) as connection,
    ):
        client.transmit_log_entry_message(holder, b"one", ["tokyo"])
        with pytest.raises(StoreUnavailableError, match="database is locked") as raised:
            client.transmit_log_entry_message(connection, b"x", ["tokyo"])
        assert isinstance(raised.value.__cause__, sqlite3.OperationalError)
