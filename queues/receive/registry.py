"""The registered receive queues of a sink, one row each."""

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select

from queues.database.tables.receive import receive_queues
from queues.names import ClientName, SiteId


@dataclass(frozen=True, slots=True)
class ReceiveQueue:
    """The queue with the entries of one `source` for one `client`."""

    queue_id: int
    name: str
    client: ClientName
    source: SiteId


_COLUMNS = tuple(receive_queues.c[name] for name in ("queue_id", "name", "client", "source"))
_OF_CLIENT = select(*_COLUMNS).where(receive_queues.c.client == bindparam("client")).order_by(receive_queues.c.queue_id)


def every_registered(connection: Connection) -> list[ReceiveQueue]:
    """Return all receive queues, by source and client."""
    ordered = select(*_COLUMNS).order_by(receive_queues.c.source, receive_queues.c.client)
    return [ReceiveQueue(*row) for row in connection.execute(ordered)]


def is_registered(connection: Connection, queue_id: int) -> bool:
    """Return whether the queue exists: an operator may have forgotten it."""
    own = select(receive_queues.c.queue_id).where(receive_queues.c.queue_id == queue_id)
    return connection.execute(own).first() is not None


def registered(connection: Connection, client: ClientName) -> list[ReceiveQueue]:
    """Return the receive queues of *client*, oldest first."""
    return [ReceiveQueue(*row) for row in connection.execute(_OF_CLIENT, {"client": client})]
