"""An asynchronous application transmits through `run_sync`, with the asynchronous driver of its database."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from lr_client.sender import LRMessageWithDestinations, RoutingQueueSenderClient
from queues.errors import NotInTransactionError, UsageError
from tests.queues.reading import Reader

client = RoutingQueueSenderClient("policy")


@asynccontextmanager
async def session_of(site: Engine, **options: str) -> AsyncIterator[AsyncSession]:
    engine = create_async_engine(site.url.set(drivername=site.url.drivername.replace("sqlite", "sqlite+aiosqlite")))
    async with AsyncSession(engine.execution_options(**options)) as session:
        yield session
    await engine.dispose()


async def transmit(session: AsyncSession, *payloads: bytes) -> None:
    for payload in payloads:
        assert await session.run_sync(client.transmit_log_entry_message, payload, ["tokyo"])


def test_committed_entries_are_in_the_log_in_order_and_rolled_back_ones_are_not(site: Engine, reader: Reader) -> None:
    async def application() -> None:
        async with session_of(site) as session:
            await transmit(session, b"one", b"two")
            await session.commit()
            await transmit(session, b"never")
            await session.rollback()
            async with session.begin():
                several = [LRMessageWithDestinations(b"three", ["tokyo"]), LRMessageWithDestinations(b"four", ["lima"])]
                await session.run_sync(client.transmit_log_entry_messages, several)

    asyncio.run(application())
    assert [row.payload for row in reader.drain()] == [b"one", b"two", b"three", b"four"]


def test_later_calls_rely_on_the_findings_of_the_first_call(site: Engine, reader: Reader) -> None:
    async def application(*payloads: bytes) -> None:
        async with session_of(site) as session, session.begin():
            await transmit(session, *payloads)

    seen: list[bytes] = []
    for number in range(3):
        # From the second transaction on the set of destinations is recorded, so entries carry only its number.
        asyncio.run(application(b"first of %d" % number, b"second of %d" % number))
        seen += [row.payload for row in reader.drain()]
    assert seen == [b"%s of %d" % (which, number) for number in range(3) for which in (b"first", b"second")]


def test_transmitting_through_the_asynchronous_session_itself_is_refused_with_the_right_call(site: Engine) -> None:
    async def application() -> None:
        async with session_of(site) as session:
            with pytest.raises(UsageError, match=r"write `await client\.atransmit_log_entry_message"):
                client.transmit_log_entry_message(session, b"one", ["tokyo"])  # type: ignore[arg-type]

    asyncio.run(application())


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_session_in_autocommit_mode_is_refused(site: Engine) -> None:
    async def application() -> None:
        async with session_of(site, isolation_level="AUTOCOMMIT") as session:
            with pytest.raises(NotInTransactionError):
                await transmit(session, b"one")

    asyncio.run(application())
