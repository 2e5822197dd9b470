"""The registry: the sink announces receive queues in it, and subscribers find them there."""

from sqlalchemy import Connection

from queues.names import ClientName
from queues.receive.registry import ReceiveQueue, registered

__all__ = ["ReceiveQueue", "find"]


def find(connection: Connection, client: ClientName) -> list[ReceiveQueue]:
    """Return the receive queues of *client*, oldest first."""
    return registered(connection, client)
