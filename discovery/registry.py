"""The registry: where the sink announces receive queues and subscribers find them."""

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select

from queues.names import ClientName, SiteId
from queues.tables import receive_queues


@dataclass(frozen=True, slots=True)
class ReceiveQueue:
    """What one `source` sent for one `client`."""

    queue_id: int
    name: str
    client: ClientName
    source: SiteId


_COLUMNS = tuple(receive_queues.c[name] for name in ("queue_id", "name", "client", "source"))
_OF_CLIENT = select(*_COLUMNS).where(receive_queues.c.client == bindparam("client")).order_by(receive_queues.c.queue_id)


def find(connection: Connection, client: ClientName) -> list[ReceiveQueue]:
    """Return the receive queues of exactly *client*, oldest first."""
    return [ReceiveQueue(*row) for row in connection.execute(_OF_CLIENT, {"client": client})]
