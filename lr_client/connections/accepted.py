"""The types of connections that transmit takes, for type checkers; no driver is imported when the program runs."""

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import sqlite3
    from typing import Any

    import aiosqlite
    import asyncpg
    import asyncpg.pool
    import psycopg
    from django.db.backends.base.base import BaseDatabaseWrapper  # type: ignore[import-untyped,unused-ignore]
    from django.utils.connection import ConnectionProxy  # type: ignore[import-untyped,unused-ignore]
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
    from sqlalchemy.orm import Session, scoped_session

#: A connection for `transmit_log_entry_message`.
TransmitConnection: TypeAlias = (
    "Session | scoped_session[Any] | Connection | psycopg.Connection[Any] | sqlite3.Connection"
    " | BaseDatabaseWrapper | ConnectionProxy"
)
#: A connection for `atransmit_log_entry_message`.
AsyncTransmitConnection: TypeAlias = (
    "AsyncSession | async_scoped_session[Any] | AsyncConnection | psycopg.AsyncConnection[Any]"
    " | asyncpg.Connection | asyncpg.pool.PoolConnectionProxy | aiosqlite.Connection"
)
