"""Transmit on sessions and connections of SQLAlchemy, with lrq's own statements where the driver allows them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection
from sqlalchemy.orm import Session, scoped_session

from queues.clock import now_us
from queues.database.engine_check import require_connection
from queues.database.transactions import mapped_setup_errors
from queues.names import ClientName
from queues.positions import PositionToken
from queues.send_log.destination_check import check_destinations
from queues.send_log.opening import outbox
from queues.send_log.outbox import NewEntry

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session


def send(
    given: "Session | scoped_session[Any] | Connection", client: ClientName, entries: Sequence[NewEntry]
) -> PositionToken:
    """Write *entries*; return their token. Raises `NotInTransactionError` in autocommit."""
    connection = require_connection(given, "transmit")
    write_entries = outbox(connection)
    with mapped_setup_errors():
        check_destinations(connection, client, entries)
        written = write_entries(connection, client, entries, now_us())
    return PositionToken(written.site, client, written.branch, written.transaction, written.timeline)


async def asend(
    given: "AsyncSession | async_scoped_session[Any] | AsyncConnection",
    client: ClientName,
    entries: Sequence[NewEntry],
) -> PositionToken:
    """Do the same as `send` on an asynchronous session or connection of any driver."""
    # A scoped session has no `run_sync`: called, it returns the session of the present task.
    runner: Any = given if hasattr(given, "run_sync") else given()
    token: PositionToken = await runner.run_sync(send, client, entries)
    return token
