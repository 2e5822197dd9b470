"""The snapshot requests of one session, in the database of its site."""

from sqlalchemy import Engine

from lr_server.protocol import events as happened
from lr_server.protocol.events import Event
from queues import send_snapshot
from queues.database.transactions import reading, writing
from queues.send_log.port import SessionKey
from queues.send_snapshot import SnapshotState, SnapshotSync, hints


class SessionSnapshots:
    """The requests for snapshots of the session *owed*."""

    def __init__(self, engine: Engine, owed: SessionKey) -> None:
        self._engine = engine
        self._owed = owed

    def request(self, reason: str) -> str:
        """Replace every older request of this session; return the new `sync_id`."""
        with writing(self._engine) as connection:
            (sync_id,) = send_snapshot.request(connection, self._owed.client, [self._owed.destination], reason)
            transmitter = hints.names_at(connection).transmitter(self._owed.client)
        hints.send(transmitter)
        return sync_id

    def cancel(self, sync_id: str, reason: str) -> None:
        """Cancel the request *sync_id*; its status shows the *reason*."""
        with writing(self._engine) as connection:
            send_snapshot.cancel_one(connection, sync_id, reason)

    def look(self, sync_id: str) -> Event | None:
        """Return the event that tells how far the request *sync_id* is; None while it is being built."""
        found = self._find(sync_id)
        return happened.SnapshotCancelled(sync_id) if found is None else event_of(found)

    def ready(self, sync_id: str) -> SnapshotSync | None:
        """Return the request *sync_id* if its snapshot is complete and wanted."""
        found = self._find(sync_id)
        return found if found is not None and found.state is SnapshotState.READY else None

    def mark_applied(self, sync_id: str) -> None:
        """Note that the sink has the whole snapshot."""
        with writing(self._engine) as connection:
            send_snapshot.mark_applied(connection, sync_id)

    def _find(self, sync_id: str) -> SnapshotSync | None:
        with reading(self._engine) as connection:
            return send_snapshot.find(connection, sync_id)


def event_of(found: SnapshotSync) -> Event | None:
    """Return the event that tells how far a request is; None while its snapshot is being built."""
    if found.finished:
        return happened.SnapshotCancelled(found.sync_id)
    if found.state is SnapshotState.READY:
        return happened.SnapshotReady(found.sync_id)
    if found.error:
        return happened.SnapshotAttemptFailed(found.sync_id, found.error)
    return None
