"""Each kind of connection finds the next primary by the one URL, and a pool of dead connections recovers."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from signal import SIGKILL
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import Engine, make_url, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import queues
from lr_client import RoutingQueueSenderClient
from queues.errors import StoreUnavailableError
from tests.standbys import StandbyServers, standby_servers

pytestmark = [pytest.mark.long, pytest.mark.processes]
CLIENT = RoutingQueueSenderClient("policy")
_POOL = 8


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def servers(dialect: str) -> Iterator[StandbyServers]:
    with standby_servers() as made:
        yield made


def by_sqlalchemy(url: str) -> None:
    engine = queues.create_engine(url)
    with Session(engine) as session, session.begin():
        CLIENT.transmit_log_entry_message(session, b"1", ["tokyo"])
    engine.dispose()


def by_psycopg(url: str) -> None:
    with psycopg.connect(as_libpq(url)) as connection:
        CLIENT.transmit_log_entry_message(connection, b"1", ["tokyo"])


async def by_async_psycopg(url: str) -> None:
    async with await psycopg.AsyncConnection.connect(as_libpq(url)) as connection:
        await CLIENT.atransmit_log_entry_message(connection, b"1", ["tokyo"])


async def by_asyncpg(url: str) -> None:
    query = make_url(url).query
    hosts = str(query["host"]).split(",")
    connection = await asyncpg.connect(
        host=hosts, port=[5432] * len(hosts), user="postgres", database="postgres", target_session_attrs="read-write"
    )
    async with connection.transaction():
        await CLIENT.atransmit_log_entry_message(connection, b"1", ["tokyo"])
    await connection.close()


def by_async_session(driver: str) -> Callable[[str], Any]:
    async def transmit(url: str) -> None:
        engine = create_async_engine(make_url(url).set(drivername=f"postgresql+{driver}"))
        async with AsyncSession(engine) as session, session.begin():
            await CLIENT.atransmit_log_entry_message(session, b"1", ["tokyo"])
        await engine.dispose()

    return transmit


def as_libpq(url: str) -> str:
    query = make_url(url).query
    return " ".join(f"{name}={query[name]}" for name in query) + " user=postgres dbname=postgres"


KINDS: list[Callable[[str], Any]] = [
    by_sqlalchemy, by_psycopg, by_async_psycopg, by_asyncpg, by_async_session("psycopg"), by_async_session("asyncpg"),
]  # fmt: skip


def test_each_kind_of_connection_finds_the_next_primary_and_a_dead_pool_recovers(servers: StandbyServers) -> None:
    pooled = servers.site("paris")
    pool = queues.create_engine(servers.url(), pool_size=_POOL)
    with ExitStack() as stack:
        for _ in range(_POOL):
            stack.enter_context(pool.connect()).execute(text("SELECT 1"))
    servers.kill_primary(SIGKILL)
    for kind in KINDS:
        made = kind(servers.url())
        if made is not None:
            asyncio.run(made)
    with suppress(DBAPIError, StoreUnavailableError):
        transmit(pool)
    for _ in range(_POOL):
        transmit(pool)
    with pool.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM lrq_log_entries")).scalar_one() in (14, 15)
    for engine in (pool, pooled):
        engine.dispose()


def transmit(engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        CLIENT.transmit_log_entry_message(session, b"1", ["tokyo"])
