"""Transmit on connections of asyncpg; imports nothing of it."""

from collections.abc import Sequence
from typing import Any

from lr_client.connections.autocommit import not_in_transaction
from queues.errors import StoreUnavailableError
from queues.names import ClientName
from queues.positions import PositionToken
from queues.send_log.outbox import NewEntry
from queues.send_log.postgresql.transmit_call import transmit_call


async def asend(connection: Any, client: ClientName, entries: Sequence[NewEntry]) -> PositionToken:  # noqa: ANN401 - without types
    """Write *entries*; return their token.

    Raises `NotInTransactionError` outside of `transaction()`, `StoreUnavailableError` for a closed connection, and
    asyncpg's errors.
    """
    if connection.is_closed():
        raise StoreUnavailableError("the connection to the database is closed: open another, and begin again")
    if not connection.is_in_transaction():
        raise not_in_transaction("write `async with connection.transaction():` around the call")
    statement, values = transmit_call(client, entries, lambda number: f"${number}")
    return PositionToken.parse(await connection.fetchval(statement, *values))
