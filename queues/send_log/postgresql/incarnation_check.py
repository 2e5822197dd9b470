"""Refuse to take ticks in an incarnation of the database that no server has adopted.

Only a new owner of the lease adopts an incarnation, but a lease survives the promotion of a standby. Without this check
the old branch would go on. Other entries could then get the numbers of entries that the promotion has lost.
"""

from typing import Final

from sqlalchemy import Connection

from queues.database import dialects
from queues.database.leases import Lease
from queues.errors import OtherIncarnationError, StoreUnavailableError
from queues.send_log.branches import newest_branch

#: The key of a checked connection. No primary can be promoted or restored while a connection to it lives.
_CHECKED: Final = "lrq_incarnation"
_IN_RECOVERY: Final = "SELECT pg_is_in_recovery()"


def require_incarnation(connection: Connection, lease: Lease) -> None:
    """Check the server of *connection* at the first call for it; later calls for it send no statement.

    Raises `OtherIncarnationError` if the newest branch belongs to another incarnation. Raises `StoreUnavailableError`
    on a standby, because a promotion would keep the connection.
    """
    if connection.info.get(_CHECKED):
        return
    if connection.exec_driver_sql(_IN_RECOVERY).scalar_one():
        raise StoreUnavailableError("the database is a standby: promote it, or name the primary in the database URL")
    if dialects.of(connection).incarnation(connection) != newest_branch(connection).incarnation:
        raise OtherIncarnationError(lease.name, lease.generation)
    connection.info[_CHECKED] = True
