"""Applications of every kind of connection, behind one interface of transactions and savepoints."""

import asyncio
import sqlite3
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import aiosqlite
import asyncpg
import django
import psycopg
from django.conf import settings
from django.db import connections, transaction
from sqlalchemy import URL, Engine, create_engine
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from lr_client import LRMessageWithDestinations, PositionToken, RoutingQueueSenderClient

client = RoutingQueueSenderClient("policy")
Result = TypeVar("Result")


class _UndoError(Exception):
    """Ends a block, so that its library rolls back."""


@dataclass(frozen=True)
class Application:
    """One connection, and the blocks of its library that open a transaction and a savepoint."""

    given: Any
    is_async: bool
    begin: Callable[[], Any]
    begin_nested: Callable[[], Any]

    async def transmit(self, payload: bytes, to: tuple[str, ...] = ("tokyo",), **options: Any) -> PositionToken:
        if self.is_async:
            return await client.atransmit_log_entry_message(self.given, payload, to, **options)
        return client.transmit_log_entry_message(self.given, payload, to, **options)

    async def transmit_all(self, *messages: LRMessageWithDestinations) -> PositionToken:
        if self.is_async:
            return await client.atransmit_log_entry_messages(self.given, messages)
        return client.transmit_log_entry_messages(self.given, messages)

    def transaction(self, *, fails: bool = False) -> AbstractAsyncContextManager[None]:
        return _block(self.begin(), fails=fails)

    def savepoint(self, *, fails: bool = False) -> AbstractAsyncContextManager[None]:
        return _block(self.begin_nested(), fails=fails)


@asynccontextmanager
async def _block(opened: Any, *, fails: bool) -> AsyncIterator[None]:
    with suppress(_UndoError):
        if hasattr(opened, "__aenter__"):
            async with opened:
                yield
                if fails:
                    raise _UndoError
        else:
            with opened:
                yield
                if fails:
                    raise _UndoError


Open = Callable[[Engine], AbstractAsyncContextManager[Application]]


def run(open_: Open, site: Engine, scenario: Callable[[Application], Coroutine[Any, Any, Result]]) -> Result:
    """Run *scenario* with an application; one that is not asynchronous runs without an event loop, as Django wants."""

    async def whole() -> Result:
        async with open_(site) as application:
            return await scenario(application)

    if open_ in ASYNCHRONOUS:
        return asyncio.run(whole())
    coroutine = whole()
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("a synchronous application has waited")


# --- SQLAlchemy -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def session(site: Engine) -> AsyncIterator[Application]:
    with Session(site) as opened:
        yield Application(opened, False, opened.begin, opened.begin_nested)


@asynccontextmanager
async def session_of_client_cursors(site: Engine) -> AsyncIterator[Application]:
    engine = create_engine(site.url, connect_args={"cursor_factory": psycopg.ClientCursor})
    with Session(engine) as opened:
        yield Application(opened, False, opened.begin, opened.begin_nested)
    engine.dispose()


@asynccontextmanager
async def session_of_a_scope(site: Engine) -> AsyncIterator[Application]:
    opened = scoped_session(sessionmaker(site))
    yield Application(opened, False, opened.begin, opened.begin_nested)
    opened.remove()


@asynccontextmanager
async def connection(site: Engine) -> AsyncIterator[Application]:
    with site.connect() as opened:
        yield Application(opened, False, opened.begin, opened.begin_nested)


def _async_url(site: Engine, driver: str) -> URL:
    return site.url.set(drivername=driver)


def _async_session(driver: str) -> Open:
    @asynccontextmanager
    async def opening(site: Engine) -> AsyncIterator[Application]:
        engine = create_async_engine(_async_url(site, driver))
        async with AsyncSession(engine) as opened:
            yield Application(opened, True, opened.begin, opened.begin_nested)
        await engine.dispose()

    return opening


def _async_connection(driver: str) -> Open:
    @asynccontextmanager
    async def opening(site: Engine) -> AsyncIterator[Application]:
        engine = create_async_engine(_async_url(site, driver))
        async with engine.connect() as opened:
            yield Application(opened, True, opened.begin, opened.begin_nested)
        await engine.dispose()

    return opening


def _async_scope(driver: str) -> Open:
    @asynccontextmanager
    async def opening(site: Engine) -> AsyncIterator[Application]:
        engine = create_async_engine(_async_url(site, driver))
        opened = async_scoped_session(async_sessionmaker(engine), asyncio.current_task)
        yield Application(opened, True, opened.begin, opened.begin_nested)
        await opened.remove()
        await engine.dispose()

    return opening


# --- drivers ----------------------------------------------------------------------------------------------------------


def libpq(site: Engine) -> str:
    """Return the URL of a site on PostgreSQL without SQLAlchemy's name of the driver."""
    return site.url.set(drivername="postgresql").render_as_string(hide_password=False)


def file_of(site: Engine) -> str:
    """Return the file of a site on SQLite."""
    assert site.url.database
    return site.url.database


@asynccontextmanager
async def psycopg_connection(site: Engine) -> AsyncIterator[Application]:
    with psycopg.connect(libpq(site)) as opened:
        yield Application(opened, False, opened.transaction, opened.transaction)


@asynccontextmanager
async def psycopg_in_autocommit(site: Engine) -> AsyncIterator[Application]:
    with psycopg.connect(libpq(site), autocommit=True, row_factory=psycopg.rows.dict_row) as opened:
        opened.cursor_factory = psycopg.RawCursor
        yield Application(opened, False, opened.transaction, opened.transaction)


@asynccontextmanager
async def async_psycopg_connection(site: Engine) -> AsyncIterator[Application]:
    async with await psycopg.AsyncConnection.connect(libpq(site)) as opened:
        yield Application(opened, True, opened.transaction, opened.transaction)


@asynccontextmanager
async def asyncpg_connection(site: Engine) -> AsyncIterator[Application]:
    opened = await asyncpg.connect(libpq(site))
    try:
        yield Application(opened, True, opened.transaction, opened.transaction)
    finally:
        await opened.close()


@asynccontextmanager
async def asyncpg_pool(site: Engine) -> AsyncIterator[Application]:
    async with (
        asyncpg.create_pool(libpq(site), min_size=1, max_size=1, statement_cache_size=0) as pool,
        pool.acquire() as opened,
    ):
        await opened.set_type_codec("jsonb", encoder=repr, decoder=repr, schema="pg_catalog")
        yield Application(opened, True, opened.transaction, opened.transaction)


@asynccontextmanager
async def sqlite3_connection(site: Engine) -> AsyncIterator[Application]:
    with closing(sqlite3.connect(file_of(site))) as opened:
        opened.row_factory = sqlite3.Row
        yield Application(opened, False, lambda: opened, lambda: _sqlite_savepoint(opened))


@asynccontextmanager
async def sqlite3_in_autocommit(site: Engine) -> AsyncIterator[Application]:
    with closing(sqlite3.connect(file_of(site), isolation_level=None)) as opened:
        opened.row_factory = lambda _, row: {"row": row}
        opened.text_factory = bytes

        @contextmanager
        def transaction_of_sql() -> Any:
            opened.execute("BEGIN IMMEDIATE")
            with opened:
                yield

        yield Application(opened, False, transaction_of_sql, lambda: _sqlite_savepoint(opened))


@contextmanager
def _sqlite_savepoint(opened: sqlite3.Connection) -> Any:
    if not opened.in_transaction:
        # In sqlite3's default mode a savepoint begins no transaction that `commit` would end.
        opened.execute("BEGIN")
    opened.execute("SAVEPOINT inner_block")
    try:
        yield
    except BaseException:
        opened.execute("ROLLBACK TO inner_block")
        raise
    finally:
        opened.execute("RELEASE inner_block")


@asynccontextmanager
async def aiosqlite_connection(site: Engine) -> AsyncIterator[Application]:
    async with aiosqlite.connect(file_of(site)) as opened:
        opened.row_factory = aiosqlite.Row

        @asynccontextmanager
        async def begin() -> AsyncIterator[None]:
            try:
                yield
            except BaseException:
                await opened.rollback()
                raise
            await opened.commit()

        @asynccontextmanager
        async def begin_nested() -> AsyncIterator[None]:
            if not opened.in_transaction:
                await opened.execute("BEGIN")
            await opened.execute("SAVEPOINT inner_block")
            try:
                yield
            except BaseException:
                await opened.execute("ROLLBACK TO inner_block")
                raise
            finally:
                await opened.execute("RELEASE inner_block")

        yield Application(opened, True, begin, begin_nested)


def configure_django() -> None:
    """Configure Django once for the process, with a database in memory."""
    if not settings.configured:
        memory = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
        settings.configure(DATABASES={"default": memory}, USE_TZ=True)
        django.setup()


@asynccontextmanager
async def django_connection(site: Engine) -> AsyncIterator[Application]:
    with django_alias(site) as alias:
        yield Application(
            connections[alias],
            False,
            lambda: transaction.atomic(using=alias),
            lambda: transaction.atomic(using=alias),
        )


@contextmanager
def django_alias(site: Engine, **options: Any) -> Any:
    """Add a database to Django's settings, and give its alias."""
    alias, url = f"site_{uuid.uuid4().hex}", site.url
    named = {"ENGINE": "django.db.backends.sqlite3", "NAME": url.database}
    if url.host or url.query or url.username:
        named = {"ENGINE": "django.db.backends.postgresql", "NAME": url.database, "USER": url.username, **place(url)}
    databases = {**connections.settings, alias: {**named, **options}}
    connections.settings[alias] = connections.configure_settings(databases)[alias]
    try:
        yield alias
    finally:
        connections[alias].close()
        del connections[alias]
        del connections.settings[alias]


def place(url: URL) -> Mapping[str, object]:
    return {
        "PASSWORD": url.password or "",
        "HOST": url.host or url.query.get("host", ""),
        "PORT": url.port or url.query.get("port", ""),
    }


_session_of_asyncpg = _async_session("postgresql+asyncpg")
_session_of_psycopg = _async_session("postgresql+psycopg")
_connection_of_asyncpg = _async_connection("postgresql+asyncpg")
_scope_of_asyncpg = _async_scope("postgresql+asyncpg")
_session_of_aiosqlite = _async_session("sqlite+aiosqlite")
_connection_of_aiosqlite = _async_connection("sqlite+aiosqlite")
_scope_of_aiosqlite = _async_scope("sqlite+aiosqlite")

POSTGRESQL: Mapping[str, Open] = {
    "Session": session,
    "Session-of-client-cursors": session_of_client_cursors,
    "scoped_session": session_of_a_scope,
    "Connection": connection,
    "psycopg": psycopg_connection,
    "psycopg-autocommit": psycopg_in_autocommit,
    "Django": django_connection,
    "AsyncSession-asyncpg": _session_of_asyncpg,
    "AsyncSession-psycopg": _session_of_psycopg,
    "AsyncConnection-asyncpg": _connection_of_asyncpg,
    "async_scoped_session-asyncpg": _scope_of_asyncpg,
    "AsyncConnection-of-psycopg": async_psycopg_connection,
    "asyncpg": asyncpg_connection,
    "asyncpg-pool": asyncpg_pool,
}
SQLITE: Mapping[str, Open] = {
    "Session": session,
    "scoped_session": session_of_a_scope,
    "Connection": connection,
    "sqlite3": sqlite3_connection,
    "sqlite3-autocommit": sqlite3_in_autocommit,
    "Django": django_connection,
    "AsyncSession-aiosqlite": _session_of_aiosqlite,
    "AsyncConnection-aiosqlite": _connection_of_aiosqlite,
    "async_scoped_session-aiosqlite": _scope_of_aiosqlite,
    "aiosqlite": aiosqlite_connection,
}
ASYNCHRONOUS = {
    _session_of_asyncpg,
    _session_of_psycopg,
    _connection_of_asyncpg,
    _scope_of_asyncpg,
    _session_of_aiosqlite,
    _connection_of_aiosqlite,
    _scope_of_aiosqlite,
    async_psycopg_connection,
    asyncpg_connection,
    asyncpg_pool,
    aiosqlite_connection,
}
