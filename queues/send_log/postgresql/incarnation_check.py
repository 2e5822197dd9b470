"""Refuse to take ticks in an incarnation of the database that no server has adopted.

Only a new owner of the lease adopts an incarnation, but a lease survives the promotion of a standby. Without this check
the old branch would go on. Other entries could then get the numbers of entries that the promotion has lost.

A cluster whose transaction ids went back counts as restored: the newest tick would seem to cover all new entries.
"""

from typing import Final

from sqlalchemy import Connection

from queues.database import dialects
from queues.database.leases import Lease
from queues.errors import OtherIncarnationError, StoreUnavailableError
from queues.positions import Tick, Visibility
from queues.send_log.branches import newest_branch
from queues.send_log.reads import newest_tick

#: The key of a checked connection. No primary can be promoted or restored while a connection to it lives.
_CHECKED: Final = "lrq_incarnation"
_IN_RECOVERY: Final = "SELECT pg_is_in_recovery()"
_XMAX: Final = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"


def require_incarnation(connection: Connection, lease: Lease) -> None:
    """Check the server of *connection* at the first call for it; later calls for it send no statement.

    Raises `OtherIncarnationError` if the newest branch belongs to another incarnation, or ids went back. Raises
    `StoreUnavailableError` on a standby, because a promotion would keep the connection.
    """
    if connection.info.get(_CHECKED):
        return
    if connection.exec_driver_sql(_IN_RECOVERY).scalar_one():
        raise StoreUnavailableError("the database is a standby: promote it, or name the primary in the database URL")
    is_same = dialects.of(connection).incarnation(connection) == newest_branch(connection).incarnation
    if not is_same or ids_went_back(connection, newest_tick(connection)):
        raise OtherIncarnationError(lease.name, lease.generation)
    connection.info[_CHECKED] = True


def ids_went_back(connection: Connection, newest: Tick | None) -> bool:
    """Return whether the next transaction ids are ones that *newest* covers, as after `pg_resetwal` with `-e` or `-x`.

    A tick has a greater id than all transactions that it covers. So no crash and no promotion brings the ids back.
    """
    window = Visibility.parse(newest.mark).window if newest else None
    return window is not None and window.xmax > int(connection.exec_driver_sql(_XMAX).scalar_one())
