"""A connection that commits every statement by itself is refused, with the block to write; inside a block it serves."""

import asyncio
import sqlite3
import threading
from contextlib import closing
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import pytest
from django.db import connections, transaction
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from lr_client import RoutingQueueSenderClient
from queues.browse.api import Wanted, browse
from queues.errors import NotInTransactionError
from queues.names import SEND_LOG_ENTRIES
from tests.lr_client.connections.applications import django_alias, file_of, libpq

client = RoutingQueueSenderClient("policy")
transmit, atransmit = client.transmit_log_entry_message, client.atransmit_log_entry_message
on_postgresql = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
on_sqlite = pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)


def stored(site: Engine) -> list[bytes]:
    return [entry.payload for entry in browse(site, SEND_LOG_ENTRIES, Wanted(everything=True)).entries]


@on_postgresql
def test_psycopg_in_autocommit(site: Engine) -> None:
    with psycopg.connect(libpq(site), autocommit=True) as connection:
        with pytest.raises(NotInTransactionError, match=r"write `with connection\.transaction\(\):`"):
            transmit(connection, b"x", ["tokyo"])
        connection.execute("BEGIN")
        transmit(connection, b"by hand", ["tokyo"])
        connection.execute("COMMIT")
        with pytest.raises(NotInTransactionError):
            transmit(connection, b"x", ["tokyo"])
    assert stored(site) == [b"by hand"]


@on_postgresql
def test_psycopg_in_a_pipeline(site: Engine) -> None:
    with psycopg.connect(libpq(site)) as connection, connection.pipeline():
        connection.execute("SELECT 1")
        transmit(connection, b"one", ["tokyo"])
        transmit(connection, b"two", ["tokyo"])
    with psycopg.connect(libpq(site), autocommit=True) as connection, connection.pipeline():
        with pytest.raises(NotInTransactionError, match="outside of a pipeline"):
            transmit(connection, b"x", ["tokyo"])
        connection.execute("SELECT 1")
        with pytest.raises(NotInTransactionError, match="outside of a pipeline"):
            transmit(connection, b"x", ["tokyo"])
    assert stored(site) == [b"one", b"two"]


@on_postgresql
def test_asynchronous_psycopg_in_autocommit(site: Engine) -> None:
    async def application() -> None:
        async with await psycopg.AsyncConnection.connect(libpq(site), autocommit=True) as connection:
            with pytest.raises(NotInTransactionError, match=r"write `async with connection\.transaction\(\):`"):
                await atransmit(connection, b"x", ["tokyo"])
            async with connection.transaction():
                await atransmit(connection, b"one", ["tokyo"])

    asyncio.run(application())
    assert stored(site) == [b"one"]


@on_postgresql
def test_asyncpg_outside_of_a_transaction(site: Engine) -> None:
    async def application() -> None:
        connection = await asyncpg.connect(libpq(site))
        with pytest.raises(NotInTransactionError, match=r"write `async with connection\.transaction\(\):`"):
            await atransmit(connection, b"x", ["tokyo"])
        await connection.execute("BEGIN")
        await atransmit(connection, b"by hand", ["tokyo"])
        await connection.execute("COMMIT")
        await connection.close()

    asyncio.run(application())
    assert stored(site) == [b"by hand"]


@on_postgresql
@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_an_asynchronous_session_in_autocommit(site: Engine, driver: str) -> None:
    async def application() -> None:
        engine = create_async_engine(site.url.set(drivername=f"postgresql+{driver}"), isolation_level="AUTOCOMMIT")
        async with AsyncSession(engine) as session:
            with pytest.raises(NotInTransactionError, match="use a connection without autocommit"):
                await atransmit(session, b"x", ["tokyo"])
        await engine.dispose()

    asyncio.run(application())
    assert stored(site) == []


@on_sqlite
def test_sqlite3_without_an_isolation_level(site: Engine) -> None:
    with closing(sqlite3.connect(file_of(site), isolation_level=None)) as connection:
        with pytest.raises(NotInTransactionError, match='execute "BEGIN IMMEDIATE" before the call'):
            transmit(connection, b"x", ["tokyo"])
        connection.execute("BEGIN")
        transmit(connection, b"one", ["tokyo"])
        connection.execute("COMMIT")
        with pytest.raises(NotInTransactionError):
            transmit(connection, b"x", ["tokyo"])
    assert stored(site) == [b"one"]


@on_sqlite
@pytest.mark.parametrize(("mode", "isolation_level"), [(True, ""), (False, None)])
def test_the_autocommit_attribute_of_later_versions_of_python_replaces_the_isolation_level(
    site: Engine, mode: bool, isolation_level: str | None
) -> None:
    class Later(sqlite3.Connection):
        autocommit = mode

    with closing(sqlite3.connect(file_of(site), isolation_level=isolation_level, factory=Later)) as connection:
        if mode:
            with pytest.raises(NotInTransactionError):
                transmit(connection, b"x", ["tokyo"])
        else:
            transmit(connection, b"x", ["tokyo"])


@on_sqlite
def test_sqlite3_begins_a_transaction_with_the_first_entry(site: Engine) -> None:
    with closing(sqlite3.connect(file_of(site))) as connection:
        transmit(connection, b"one", ["tokyo"])
        assert connection.in_transaction
        connection.rollback()
        transmit(connection, b"two", ["tokyo"])
        connection.commit()
    assert stored(site) == [b"two"]


@on_sqlite
def test_aiosqlite_without_an_isolation_level(site: Engine) -> None:
    async def application() -> None:
        async with aiosqlite.connect(file_of(site), isolation_level=None) as connection:
            with pytest.raises(NotInTransactionError, match='execute "BEGIN IMMEDIATE" before the call'):
                await atransmit(connection, b"x", ["tokyo"])
            await connection.execute("BEGIN")
            await atransmit(connection, b"one", ["tokyo"])
            await connection.commit()

    asyncio.run(application())
    assert stored(site) == [b"one"]


@on_sqlite
@pytest.mark.parametrize(("mode", "isolation_level"), [(True, ""), (False, None), (-1, "")])
def test_the_autocommit_attribute_is_read_in_the_thread_of_aiosqlite(
    site: Engine, mode: int, isolation_level: str | None
) -> None:
    class Later(sqlite3.Connection):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.made_in = threading.get_ident()

        @property
        def autocommit(self) -> int:
            if threading.get_ident() != self.made_in:
                raise sqlite3.ProgrammingError("SQLite objects created in a thread can only be used in that same one")
            return mode

    async def application() -> None:
        opening = aiosqlite.connect(file_of(site), isolation_level=isolation_level, factory=Later)
        async with opening as connection:
            if mode is True:
                with pytest.raises(NotInTransactionError):
                    await atransmit(connection, b"x", ["tokyo"])
            else:
                await atransmit(connection, b"x", ["tokyo"])

    asyncio.run(application())


def test_django_outside_of_atomic(site: Engine, settings_of_django: None) -> None:
    with django_alias(site) as alias:
        with pytest.raises(NotInTransactionError, match=r"write `with transaction\.atomic\(\):` around the call"):
            transmit(connections[alias], b"x", ["tokyo"])
        with transaction.atomic(using=alias):
            transmit(connections[alias], b"one", ["tokyo"])
        connections[alias].set_autocommit(False)
        transmit(connections[alias], b"two", ["tokyo"])
        connections[alias].commit()
        connections[alias].set_autocommit(True)
    assert stored(site) == [b"one", b"two"]


def test_the_proxy_of_django_s_default_database_serves_like_its_connection(
    site: Engine, settings_of_django: None
) -> None:
    from django.utils.connection import ConnectionProxy

    with django_alias(site) as alias:
        proxy = ConnectionProxy(connections, alias)
        with pytest.raises(NotInTransactionError):
            transmit(proxy, b"x", ["tokyo"])
        with transaction.atomic(using=alias):
            transmit(proxy, b"one", ["tokyo"])
    assert stored(site) == [b"one"]
