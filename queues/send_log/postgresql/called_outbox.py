"""Write entries through SQLAlchemy with any driver of PostgreSQL, by calling the function `lrq_transmit`."""

from collections.abc import Sequence

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from queues.errors import NotInTransactionError, SetupError, UsageError
from queues.names import ClientName
from queues.positions import PositionToken
from queues.send_log.call_errors import call_error
from queues.send_log.outbox import NewEntry, Written
from queues.send_log.postgresql.transmit_call import transmit_call


def write(connection: Connection, client: str, entries: Sequence[NewEntry], created_us: int) -> Written:  # noqa: ARG001 - the database's clock serves
    """Insert *entries* in the caller's transaction; raise `NotInTransactionError` on a connection in autocommit."""
    if getattr(connection.connection.dbapi_connection, "autocommit", False):
        raise NotInTransactionError(
            "transmit needs a transaction, but this connection commits every statement by itself: "
            "use a connection without autocommit"
        )
    statement, values = transmit_call(ClientName(client), entries, lambda number: f":p{number}")
    named = {f"p{number}": value for number, value in enumerate(values, 1)}
    try:
        token = PositionToken.parse(connection.execute(text(statement), named).scalar_one())
    except DBAPIError as error:
        mapped = call_error(error)
        # As with lrq's own statements, all other errors stay those of SQLAlchemy.
        if isinstance(mapped, UsageError | SetupError):
            raise mapped from error
        raise
    return Written(token.site, token.branch, token.transaction, token.timeline)
