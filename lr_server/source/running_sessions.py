"""The running sessions of a server, and the save of their standings."""

import threading
from collections.abc import Callable
from contextlib import suppress

from lr_server.protocol.states import SessionStanding
from lr_server.session import table as session_table
from lr_server.session.context import SessionContext
from lr_server.session.runner import Session
from lr_server.session.table import Standing
from queues.errors import LrqError, OwnershipLostError
from queues.send_log.port import SessionKey


class RunningSessions:
    """The sessions that run now, and their standings as saved last.

    `guard` is held while a session comes or goes, and while the rights to run sessions change. So `end_where`, after a
    change of the rights, finds every session that began under the rights of before.
    """

    def __init__(self, context: SessionContext) -> None:
        self._engine = context.engine
        self._saving = context.saving
        self._on_lost = context.on_lost
        self._changed = context.changed
        self._sessions: dict[SessionKey, Session] = {}
        self._saved: dict[SessionKey, SessionStanding] = {}
        self.guard = threading.Lock()

    def all(self) -> list[Session]:
        """Return the running sessions."""
        with self.guard:
            return list(self._sessions.values())

    def get(self, owed: SessionKey) -> Session | None:
        """Return the session if it runs."""
        return self._sessions.get(owed)

    def begin(self, session: Session) -> None:
        """Start *session*; the caller holds `guard`."""
        self._sessions[session.owed] = session
        self._changed.note(session.owed)
        session.start()

    def end_where(self, is_over: Callable[[Session], bool], *, is_kept: bool = True) -> list[Session]:
        """End the sessions of which *is_over* holds, and return them; with *is_kept*, save their standings."""
        with self.guard:
            gone = [session for session in self._sessions.values() if is_over(session)]
            for session in gone:
                del self._sessions[session.owed]
        for session in gone:
            session.stop()
        for session in gone:
            session.join()
        if gone:
            with self._saving:
                for session in gone:
                    self._saved.pop(session.owed, None)
                # Without a database, or under a lost lease, the next leader finds an older standing.
                if is_kept:
                    with suppress(LrqError):
                        session_table.save(self._engine, map(standing_of, gone))
            for session in gone:
                # The next session of the same link may have begun meanwhile, and its facts belong into the row.
                self._changed.note(session.owed)
        return gone

    def retire(self) -> None:
        """Save the standings of finished sessions, and end their threads."""
        finished = {session.owed for session in self.all() if session.is_finished}
        if finished:
            for owed in finished:
                # The session's thread may stand still between its last state and its own note.
                self._changed.note(owed)
            self.save()
            self.end_where(lambda session: session.owed in finished, is_kept=False)

    def save(self) -> None:
        """Write the changed standings to the database."""
        # One save at a time, so that older facts never replace newer ones.
        with self._saving:
            noted = self._changed.take()
            for owed in self._changed.take_written_rows():
                self._saved.pop(owed, None)
            changed = [
                standing
                for session in filter(None, map(self.get, noted))
                if self._saved.get(session.owed) != (standing := standing_of(session)).facts
            ]
            if changed:
                for error in self._written(changed):
                    self._on_lost(error)

    def _written(self, changed: list[Standing]) -> list[OwnershipLostError]:
        try:
            lost = session_table.save(self._engine, changed)
        except BaseException:
            # The next save repeats this one, also if no fact changes until then.
            for each in changed:
                self._changed.note(each.owed)
            raise
        self._saved |= {each.owed: each.facts for each in changed}
        return lost


def standing_of(session: Session) -> Standing:
    """Return the facts to save of *session*."""
    return Standing(session.owed, session.leadership.lease, session.standing)
