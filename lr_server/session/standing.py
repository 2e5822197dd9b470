"""The standing of one session: the facts that its server saves and its status shows."""

from lr_server.protocol.states import (
    Draining,
    LogEntrySync,
    SessionStanding,
    SnapshotTransferring,
    State,
    StatusText,
    describe,
)
from lr_server.session.connection import SinkConnection
from lr_server.session.replaced import ReplacedCount
from queues.names import SiteId


class LastStanding:
    """Keeps the last standing of a session, so that frequent reads are cheap while nothing changes."""

    def __init__(self, destination: SiteId, connection: SinkConnection, replaced: ReplacedCount) -> None:
        self._destination = destination
        self._connection = connection
        self._replaced = replaced
        self._finished: StatusText | None = None
        self._last: tuple[tuple[object, ...], SessionStanding] | None = None

    def finish(self, state: State) -> None:
        """Show the words of *state* from now on: the stop of a finished session is no news."""
        self._finished = describe(state)

    def at(self, state: State) -> SessionStanding:
        """Return the standing in *state*."""
        progress = self._connection.progress
        acked, applied_seq, waits = progress.acked, progress.applied_seq, progress.waits
        replaced, window = self._replaced.total, self._connection.window_percent
        last, facts = self._last, (state, acked, applied_seq, waits, replaced, window)
        # Most often the facts are the same objects, so that comparing them is quick.
        if last is None or last[0] != facts:
            rows = state.acked_row if isinstance(state, SnapshotTransferring) else 0
            words = self._finished or describe(state)
            if waits and isinstance(state, LogEntrySync | Draining):
                words = words._replace(detail=f"waiting: the subscriber at {self._destination} does not keep up")
            self._last = last = facts, SessionStanding(words, acked, applied_seq, rows, replaced, window)
        return last[1]
