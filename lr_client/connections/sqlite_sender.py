"""Transmit on connections of Python's sqlite3, and of aiosqlite, which the application has imported."""

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from sqlite3 import Connection
from typing import TYPE_CHECKING, Final

from lr_client.connections.autocommit import not_in_transaction
from lr_client.connections.driver_steps import Step, carry_out, thrown, token_of
from lr_client.connections.sqlite_calls import sqlite_steps
from queues.names import ClientName
from queues.positions import PositionToken
from queues.send_log.outbox import NewEntry

if TYPE_CHECKING:
    import aiosqlite

_CURE: Final = (
    'execute "BEGIN IMMEDIATE" before the call, or open the connection with another isolation_level than None'
)


def send(connection: Connection, client: ClientName, entries: Sequence[NewEntry]) -> PositionToken:
    """Write *entries*; return their token. Raises `NotInTransactionError` in autocommit, and sqlite3's errors."""
    if _commits_alone(connection):
        raise not_in_transaction(_CURE)
    steps = sqlite_steps(connection, client, entries, begun=connection.in_transaction)
    with closing(connection.cursor()) as cursor:
        # The connection's own kind of rows may be no tuples.
        cursor.row_factory = None
        return carry_out(steps, cursor, connection)


async def asend(connection: "aiosqlite.Connection", client: ClientName, entries: Sequence[NewEntry]) -> PositionToken:
    """Do the same as `send` on a connection of aiosqlite."""
    if await _acommits_alone(connection):
        raise not_in_transaction(_CURE)
    steps = sqlite_steps(connection, client, entries, begun=connection.in_transaction)
    go_on: Callable[[], Step] = partial(steps.send, None)
    async with connection.cursor() as cursor:
        cursor.row_factory = None
        while True:
            try:
                statement, rows = go_on()
            except StopIteration as ended:
                return token_of(ended)
            try:
                row = None
                if rows:
                    await cursor.executemany(statement, rows)
                else:
                    await cursor.execute(statement)
                    row = await cursor.fetchone()
                go_on = partial(steps.send, row)
            except Exception as error:  # noqa: BLE001 - thrown into the steps, which raise it again
                go_on = thrown(steps, error, connection)


def _commits_alone(connection: Connection) -> bool:
    """Tell whether the next INSERT is a transaction of its own."""
    return not connection.in_transaction and _has_autocommit(connection)


async def _acommits_alone(connection: "aiosqlite.Connection") -> bool:
    if connection.in_transaction:
        return False
    # Only the thread of the connection may read the attribute `autocommit`.
    driver, execute = (getattr(connection, name, None) for name in ("_conn", "_execute"))
    if driver is None or execute is None:
        return connection.isolation_level is None
    return bool(await execute(_has_autocommit, driver))


def _has_autocommit(connection: Connection) -> bool:
    # Python 3.12 has the attribute; True and False replace the rule of the isolation level.
    mode = getattr(connection, "autocommit", None)
    return mode if isinstance(mode, bool) else connection.isolation_level is None
