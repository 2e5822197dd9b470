"""The wishes of operators for links, as the sessions follow them (docs/links.md)."""

from sqlalchemy import Engine

from lr_server.session import table as session_table
from lr_server.source.link_ends import LinkEnds
from lr_server.source.running_sessions import RunningSessions, standing_of
from lr_server.source.session_rights import SessionRights
from queues.database.transactions import reading
from queues.send_log.links import links_and_change
from queues.send_log.port import SessionKey
from queues.send_log.sessions import every_key
from queues.states import LinkWish


class LinkChanges:
    """The links that end, or have ended. For the supervisor's thread, except `forget_ends`."""

    def __init__(self, engine: Engine, running: RunningSessions, rights: SessionRights) -> None:
        self._engine = engine
        self._running = running
        self._rights = rights
        self._ends = LinkEnds(engine)
        self._is_branch_new = False
        self._number: int | None = None
        #: The links that have ended, as read last: no session of theirs begins.
        self.ended: frozenset[SessionKey] = frozenset()
        #: The draining links whose sessions this server leads.
        self.draining: frozenset[SessionKey] = frozenset()

    def forget_ends(self) -> None:
        """Look for all ends again, because the log has begun another branch; for any thread."""
        self._is_branch_new = True

    def follow(self) -> None:
        """Tell the sessions of links that end; end those of forgotten links, and those with nothing left to do.

        A link may be forgotten and begun again between two calls. The session then has no row, and must begin anew.
        """
        # First: a session that has finished before the wishes are read must not begin again.
        self._running.retire()
        with reading(self._engine) as connection:
            rows, number = links_and_change(connection)
        kept = self._keys() if number != self._number else None
        self.ended = frozenset(row.key for row in rows if row.wish is LinkWish.ENDED)
        gone = self._running.end_where(lambda session: session.owed in self.ended, is_kept=False)
        if gone:
            session_table.finish(self._engine, map(standing_of, gone))
        if kept is not None:
            self._running.end_where(lambda session: session.owed not in kept, is_kept=False)
            self._number = number
        draining = [row for row in rows if row.wish is LinkWish.DRAINING and self._rights.lease_of(row.key) is not None]
        self.draining = frozenset(row.key for row in draining)
        if self._is_branch_new:
            self._is_branch_new = False
            self._ends.forget()
        ends = {row.key: (end, row.asked_us) for row, end in self._ends.look(draining).items()}
        for session in self._running.all():
            if session.owed not in self.draining:
                session.begin_again()
            elif (known := ends.get(session.owed)) is not None:
                session.note_end(*known)

    def _keys(self) -> frozenset[SessionKey]:
        """Return the sessions with a row."""
        with reading(self._engine) as connection:
            return frozenset(every_key(connection))
