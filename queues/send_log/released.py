"""Sessions whose claim on old entries an operator has released.

Trim keeps no entry for such a session. The loss is recorded as beyond retention, so the site gets a snapshot if it ever
comes back. The claim is back once the session begins again.
"""

from collections.abc import Iterable

from sqlalchemy import Connection, select, true, update

from queues.clock import now_us
from queues.database.tables.sessions import sessions
from queues.names import ClientName, SiteId
from queues.send_log.port import SessionKey


def released(connection: Connection) -> frozenset[SessionKey]:
    """Return the sessions without a claim."""
    found = connection.execute(select(sessions.c.client, sessions.c.destination).where(sessions.c.released == true()))
    return frozenset(SessionKey(ClientName(client), SiteId(destination)) for client, destination in found)


def release(connection: Connection, keys: Iterable[SessionKey]) -> None:
    """Release the claims of the sessions *keys*."""
    for key in sorted(keys):
        _set(connection, key, is_released=True)


def claim_again(connection: Connection, key: SessionKey) -> None:
    """Give the session its claim back, for the entries that are still kept."""
    _set(connection, key, is_released=False)


def _set(connection: Connection, key: SessionKey, *, is_released: bool) -> None:
    own = (sessions.c.client == key.client) & (sessions.c.destination == key.destination)
    connection.execute(update(sessions).where(own).values(released=is_released, updated_us=now_us()))
