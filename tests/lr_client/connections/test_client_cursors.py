"""An application with client-side cursors prepares no statement, and so does lrq: the pooler may know none."""

import asyncio

import psycopg
import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.pool import StaticPool

from lr_client import RoutingQueueSenderClient
from tests.lr_client.connections.applications import libpq

client = RoutingQueueSenderClient("policy")
PREPARED = "SELECT count(*) FROM pg_prepared_statements"
#: More than psycopg's threshold.
CALLS = 8
pytestmark = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)


@pytest.mark.parametrize(("kind", "prepared"), [(psycopg.ClientCursor, 0), (psycopg.Cursor, 1)])
def test_sqlalchemy(site: Engine, kind: type, prepared: int) -> None:
    engine = create_engine(site.url, poolclass=StaticPool, connect_args={"cursor_factory": kind})
    for _ in range(CALLS):
        with engine.begin() as connection:
            client.transmit_log_entry_message(connection, b"x", ["tokyo"])
    with engine.begin() as connection:
        assert min(connection.exec_driver_sql(PREPARED).scalar_one(), 1) == prepared
    engine.dispose()


@pytest.mark.parametrize(("kind", "prepared"), [(psycopg.ClientCursor, 0), (psycopg.Cursor, 1)])
def test_psycopg(site: Engine, kind: type, prepared: int) -> None:
    with psycopg.connect(libpq(site), cursor_factory=kind) as connection:
        for _ in range(CALLS):
            client.transmit_log_entry_message(connection, b"x", ["tokyo"])
        assert connection.execute(PREPARED).fetchone() == (prepared,)


@pytest.mark.parametrize(("kind", "prepared"), [(psycopg.AsyncClientCursor, 0), (psycopg.AsyncCursor, 1)])
def test_asynchronous_psycopg(site: Engine, kind: type, prepared: int) -> None:
    async def application() -> None:
        async with await psycopg.AsyncConnection.connect(libpq(site), cursor_factory=kind) as connection:
            for _ in range(CALLS):
                await client.atransmit_log_entry_message(connection, b"x", ["tokyo"])
            found = await connection.execute(PREPARED)
            assert await found.fetchone() == (prepared,)

    asyncio.run(application())
