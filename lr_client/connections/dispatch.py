"""Write entries on a connection of any kind, and wake the server."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from lr_client.connections import asyncpg_sender, django_sender, psycopg_sender, sqlalchemy_sender, sqlite_sender
from lr_client.connections.driver_errors import mapped_driver_errors
from lr_client.connections.kinds import ConnectionKind, kind_of
from queues.database.engine_check import described
from queues.errors import UsageError
from queues.names import ClientName
from queues.positions import PositionToken
from queues.send_log import wakeup
from queues.send_log.outbox import NewEntry

#: Writes entries in the transaction of a connection. `Any`, because each function knows its own library.
Send = Callable[[Any, ClientName, Sequence[NewEntry]], PositionToken]
AsyncSend = Callable[[Any, ClientName, Sequence[NewEntry]], Awaitable[PositionToken]]

_SENDS: Final[Mapping[ConnectionKind, Send]] = {
    ConnectionKind.SQLALCHEMY: sqlalchemy_sender.send,
    ConnectionKind.PSYCOPG: psycopg_sender.send,
    ConnectionKind.SQLITE3: sqlite_sender.send,
    ConnectionKind.DJANGO: django_sender.send,
}
_ASYNC_SENDS: Final[Mapping[ConnectionKind, AsyncSend]] = {
    ConnectionKind.ASYNC_SQLALCHEMY: sqlalchemy_sender.asend,
    ConnectionKind.ASYNC_PSYCOPG: psycopg_sender.asend,
    ConnectionKind.ASYNCPG: asyncpg_sender.asend,
    ConnectionKind.AIOSQLITE: sqlite_sender.asend,
}


def write(connection: object, client: ClientName, entries: Sequence[NewEntry]) -> PositionToken:
    """Write *entries* in the caller's transaction, and return their token.

    Raises `UsageError` for an object of another kind, and the errors of `mapped_driver_errors`.
    """
    kind = kind_of(connection)
    send = None if kind is None else _SENDS.get(kind)
    if send is None:
        raise UsageError(refusal(connection, kind))
    with mapped_driver_errors():
        token = send(connection, client, entries)
    wakeup.wake_server(token.branch)
    return token


async def awrite(connection: object, client: ClientName, entries: Sequence[NewEntry]) -> PositionToken:
    """Do the same as `write` on an asynchronous connection."""
    kind = kind_of(connection)
    send = None if kind is None else _ASYNC_SENDS.get(kind)
    if send is None:
        raise UsageError(refusal(connection, kind, wants_async=True))
    with mapped_driver_errors():
        token = await send(connection, client, entries)
    wakeup.wake_server(token.branch)
    return token


_TRANSMIT: Final = "transmit_log_entry_message"


def refusal(given: object, kind: ConnectionKind | None, *, wants_async: bool = False) -> str:
    """Return the sentence for an object that the call does not take; *kind* is None for an unknown object. Pure."""
    what = described(given)
    if kind is not None:
        if wants_async:
            return f"{what} is not asynchronous: write `client.{_TRANSMIT}(...)`, without await"
        return f"{what} is asynchronous: write `await client.a{_TRANSMIT}(...)`"
    taken = (
        "an AsyncSession or AsyncConnection of SQLAlchemy, or an asynchronous connection of psycopg, asyncpg or "
        "aiosqlite"
        if wants_async
        else "a Session or Connection of SQLAlchemy, or a connection of psycopg, sqlite3 or Django"
    )
    return f"transmit works in a transaction of the application: pass {taken}, not {what}"
