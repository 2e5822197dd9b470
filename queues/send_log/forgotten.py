"""Remove everything that the source keeps about a session, except its entries in the log."""

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection, delete

from queues.database.tables.destinations import dropped_entries, strangers
from queues.database.tables.resends import resends
from queues.database.tables.sessions import sessions
from queues.send_log.port import SessionKey

_TABLES: Final = (sessions, dropped_entries, strangers, resends)


def forget_sessions(connection: Connection, keys: Iterable[SessionKey]) -> None:
    """Delete the rows of the sessions *keys*; the wishes for their links stay."""
    for key in sorted(keys):
        for table in _TABLES:
            own = (table.c.client == key.client) & (table.c.destination == key.destination)
            connection.execute(delete(table).where(own))
