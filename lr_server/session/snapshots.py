"""The snapshot requests of one session, in the database of its site."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from sqlalchemy import Engine

from lr_server.protocol import events as happened
from lr_server.protocol.events import Event
from lr_server.protocol.histories import OfferedSnapshot
from queues import send_snapshot
from queues.database.transactions import reading, writing
from queues.positions import Position
from queues.send_log import sessions
from queues.send_log.port import SessionKey
from queues.send_snapshot import SnapshotState, SnapshotSync, hints

#: Returns a request for a snapshot as sessions may see it.
ShowSnapshot = Callable[[SnapshotSync], SnapshotSync]


def as_stored(found: SnapshotSync) -> SnapshotSync:
    """Return *found*: an ordinary site sends each complete snapshot."""
    return found


class SessionSnapshots:
    """The requests for snapshots of the session *owed*, as *shown* returns them."""

    def __init__(self, engine: Engine, owed: SessionKey, shown: ShowSnapshot) -> None:
        self._engine = engine
        self._owed = owed
        self.shown = shown
        self._told: SnapshotSync | None = None
        self._watched = ""

    def news(self, newest: SnapshotSync | None) -> Iterator[Event | None]:
        """Yield the events of the *newest* request that the session has not heard of; for the supervisor's thread."""
        newest = newest and self.shown(newest)
        if newest is None or newest == self._told:
            return
        before, self._told = self._told, newest
        if not newest.finished and (before is None or before.sync_id != newest.sync_id):
            yield happened.SnapshotRequested(newest.sync_id, newest.reason)
        if newest.finished and self._watched not in ("", newest.sync_id):
            # A request that has come and gone unseen replaced the one for which the session waits.
            yield happened.SnapshotCancelled(self._watched)
        yield event_of(newest)

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
        """Return the event that tells how far the request *sync_id* is; None while it is being built.

        A request that a newer one has replaced counts as cancelled: `news` may have told the newer one before.
        """
        self._watched = sync_id
        with reading(self._engine) as connection:
            newest = send_snapshot.newest(connection, self._owed.client, self._owed.destination)
        if newest is None or newest.sync_id != sync_id:
            return happened.SnapshotCancelled(sync_id)
        return event_of(self.shown(newest))

    def to_send(self, sync_id: str) -> SnapshotSync | None:
        """Return the request *sync_id* if `may_be_sent`."""
        found = self.find(sync_id)
        return found if found is not None and may_be_sent(found) else None

    def mark_applied(self, sync_id: str) -> Position | None:
        """Note that the sink has the whole snapshot; return its base, or None if that was noted before.

        The base becomes the session's acknowledged position at once: trim then keeps its tick and the entries after it.
        """
        with writing(self._engine) as connection:
            found = send_snapshot.find(connection, sync_id)
            if not send_snapshot.mark_applied(connection, sync_id) or found is None:
                return None
            sessions.go_back(connection, self._owed, found.base)
        return found.base

    def find(self, sync_id: str) -> SnapshotSync | None:
        """Return the request *sync_id* as the session may see it; None if there is none. Safe for several threads."""
        with reading(self._engine) as connection:
            found = send_snapshot.find(connection, sync_id)
        return None if found is None else self.shown(found)

    def offered(self, stored: OfferedSnapshot) -> OfferedSnapshot:
        """Return the snapshot as *stored*, or as not ready if it must not be sent yet."""
        found = self.find(stored.sync_id) if stored.ready else None
        return replace(stored, ready=False) if found is not None and found.state is SnapshotState.BUILDING else stored


def may_be_sent(found: SnapshotSync) -> bool:
    """Return whether rows of *found* may leave: the snapshot is complete, or a build has rows already."""
    return found.state is SnapshotState.READY or (found.state is SnapshotState.BUILDING and found.rows > 0)


def event_of(found: SnapshotSync) -> Event | None:
    """Return the event that tells how far a request is; None while its build has no rows."""
    if found.finished:
        return happened.SnapshotCancelled(found.sync_id)
    if may_be_sent(found):
        return happened.SnapshotReady(found.sync_id)
    if found.error:
        return happened.SnapshotAttemptFailed(found.sync_id, found.error)
    return None
