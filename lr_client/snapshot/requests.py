"""Request and provide snapshots in an application (docs/design.md, "Snapshots").

class Rules:
    def provide_full_state_data(self, context: SnapshotContext) -> None:
        with context.snapshot.connect() as connection:
            for row in connection.execute(select(rules)):
                context.transmit(encode(row), item_key=row.id)
        context.mark_completed()

    def cancel(self, context: SnapshotContext) -> None: ...

transmitter = client.start_snapshot_transmitter(engine, Rules())
"""

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from lr_client.snapshot.context import SnapshotContext, SnapshotProvider
from lr_client.snapshot.cut import Cut
from lr_client.snapshot.transmitter import SnapshotTransmitter
from queues import send_snapshot
from queues.database import schema
from queues.database.engine_check import require_connection
from queues.database.lent_connections import in_transaction
from queues.database.transactions import mapped_setup_errors
from queues.errors import LinkEndedError, UnknownDestinationError
from queues.names import client_name, site_id
from queues.send_log.destination_check import link_ended
from queues.send_log.links import closed_links
from queues.send_snapshot import hints

__all__ = [
    "Cut",
    "SnapshotContext",
    "SnapshotProvider",
    "SnapshotTransmitter",
    "request_global_snapshot_sync",
    "request_snapshot_sync",
]

_ASKED = "the application asked for it"


def request_snapshot_sync(session: Session | Connection, client: str, destination: str, *, reason: str = _ASKED) -> str:
    """Ask for a full snapshot of *client* for one site, in the caller's transaction; return its sync id.

    The newest request for a site wins: its commit ends the building, sending and applying of older ones.
    Raises `InvalidNameError` (a `ValueError`) for a malformed name, `NotInitializedError` without lrq tables.
    Raises `LinkEndedError` if the link has ended, and `UnknownDestinationError` (a `ValueError`) for this site itself.
    Raises `NotInTransactionError` for a connection that commits every statement by itself.
    """
    return _request(session, client, [site_id(destination)], reason)


def request_global_snapshot_sync(session: Session | Connection, client: str, *, reason: str = _ASKED) -> str:
    """Ask for a full snapshot of *client* for every site that the server knows; otherwise as `request_snapshot_sync`.

    The returned id belongs to the request; each site's snapshot has its own sync id.
    """
    return _request(session, client, None, reason)


def _request(session: Session | Connection, client: str, destinations: list[str] | None, reason: str) -> str:
    connection = require_connection(session, "a request for a snapshot")
    with mapped_setup_errors():
        in_transaction(connection, "a request for a snapshot")
        (sync_id,) = send_snapshot.request(connection, client_name(client), destinations, reason)
        # After the write: on SQLite a transaction that begins with a read may not write later.
        own = schema.site(connection, None).site_id
        if own in (destinations or ()):
            send_snapshot.withdraw(connection, sync_id)
            raise UnknownDestinationError(f"{own!r} is this site itself, which has the full state: name another site")
        closed = closed_links(connection).get(client, frozenset()).intersection(map(site_id, destinations or ()))
        if closed:
            send_snapshot.withdraw(connection, sync_id)
            raise LinkEndedError(link_ended(client, min(closed)))
        # Before the commit: the transmitter then looks often for a moment.
        hints.send(hints.names_at(connection).transmitter(client_name(client)))
    return sync_id
