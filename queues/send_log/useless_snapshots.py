"""Complete snapshots that no site can use any more: the log has trimmed entries after their bases.

A negotiation asks for another snapshot then. But the site may never come back, and the rows would stay for ever. So the
trim ends such a snapshot.
"""

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection, exists, not_, update

from queues.database import dialects
from queues.database.tables.sessions import sessions
from queues.database.tables.snapshots import snapshots
from queues.send_log.port import SessionKey
from queues.states import STORED_INACTIVE, SessionState, SnapshotState

#: The states of sessions that send no snapshot now. A session with a site that is away tries to negotiate at times.
_AWAY: Final = (
    SessionState.IDLE,
    SessionState.NEGOTIATING,
    SessionState.BACKING_OFF,
    SessionState.FAILED,
    SessionState.STOPPED,
    SessionState.FINISHED,
    *STORED_INACTIVE,
)
_REASON: Final = "the site was away until the log had trimmed entries that follow the snapshot"


def end_useless(connection: Connection, losers: Iterable[SessionKey], end_seq: int) -> None:
    """Cancel the complete snapshots of *losers*, which lose entries up to *end_seq*, if none of them is being sent."""
    works = exists().where(
        sessions.c.client == snapshots.c.client,
        sessions.c.destination == snapshots.c.destination,
        sessions.c.state.not_in(_AWAY),
    )
    now = dialects.of(connection).now_us(connection)
    for client, destination in sorted(losers):
        useless = (
            snapshots.c.client == client,
            snapshots.c.destination == destination,
            snapshots.c.state == SnapshotState.READY,
            snapshots.c.branch != "",
            snapshots.c.base_seq < end_seq,
            not_(works),
        )
        values = {"state": SnapshotState.CANCELLED, "error": _REASON, "updated_us": now}
        connection.execute(update(snapshots).where(*useless).values(values))
