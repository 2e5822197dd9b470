"""Transmit on connections of psycopg 3, which the application has imported."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from lr_client.connections.autocommit import not_in_transaction
from queues.names import ClientName
from queues.positions import PositionToken
from queues.send_log.outbox import NewEntry
from queues.send_log.postgresql.transmit_call import transmit_call

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection

_CURE: Final = "write `{}with connection.transaction():` around the call, outside of a pipeline"
# libpq's states of a connection. In a pipeline, only the state INTRANS is certain.
_IDLE, _ACTIVE = 0, 1


def send(connection: "Connection[Any]", client: ClientName, entries: Sequence[NewEntry]) -> PositionToken:
    """Write *entries*; return their token. Raises `NotInTransactionError` in autocommit, and psycopg's errors."""
    from psycopg import ClientCursor, Cursor
    from psycopg.rows import tuple_row

    if _commits_alone(connection):
        raise not_in_transaction(_CURE.format(""))
    # The connection's own kind of cursor may know other marks, and its own kind of rows may be no tuples.
    with Cursor(connection, row_factory=tuple_row) as cursor:
        row = cursor.execute(*_call(client, entries), prepare=_prepare(connection, ClientCursor)).fetchone()
    return _token(row)


async def asend(connection: "AsyncConnection[Any]", client: ClientName, entries: Sequence[NewEntry]) -> PositionToken:
    """Do the same as `send` on an asynchronous connection."""
    from psycopg import AsyncClientCursor, AsyncCursor
    from psycopg.rows import tuple_row

    if _commits_alone(connection):
        raise not_in_transaction(_CURE.format("async "))
    async with AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(*_call(client, entries), prepare=_prepare(connection, AsyncClientCursor))
        row = await cursor.fetchone()
    return _token(row)


def _commits_alone(connection: "Connection[Any] | AsyncConnection[Any]") -> bool:
    return connection.autocommit and connection.info.transaction_status in (_IDLE, _ACTIVE)


def _prepare(connection: "Connection[Any] | AsyncConnection[Any]", client_side: type) -> bool | None:
    """Return False for an application with *client_side* cursors, which prepare nothing; None leaves the choice."""
    kind: object = connection.cursor_factory
    return False if isinstance(kind, type) and issubclass(kind, client_side) else None


def _call(client: ClientName, entries: Sequence[NewEntry]) -> tuple[bytes, tuple[object, ...]]:
    # In binary, because text would double the size of payloads.
    statement, values = transmit_call(client, entries, lambda _: "%b")
    return statement.encode(), values


def _token(row: Sequence[Any] | None) -> PositionToken:
    return PositionToken.parse(str(row[0]) if row else "")
