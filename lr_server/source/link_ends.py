"""Find the end of the entries of each draining link: a tick that covers all of them (docs/links.md)."""

from collections.abc import Collection, Mapping

from sqlalchemy import Connection, Engine

from queues.browse.closed import closed_at
from queues.browse.send_log import browsing
from queues.database.transactions import reading, writing
from queues.positions import Visibility
from queues.send_log import links
from queues.send_log.links import LinkRow


class LinkEnds:
    """The known ends of draining links. Not for several threads.

    On PostgreSQL a transaction that has written an entry may commit after the end of the link. The fence is above
    its id, so the end is a tick after all transactions below the fence. A link that begins again, and ends
    another time, has another row, and so another end.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._fences: dict[LinkRow, int] = {}
        self._committed: dict[LinkRow, Visibility] = {}
        self._ends: dict[LinkRow, int] = {}

    def look(self, draining: Collection[LinkRow]) -> Mapping[LinkRow, int]:
        """Return the ends of the *draining* links, as far as known; their wishes are committed."""
        for kept in (self._fences, self._committed, self._ends):
            for row in [row for row in kept if row not in draining]:
                del kept[row]
        if new := [row for row in draining if row not in self._fences]:
            with writing(self._engine) as connection:
                fence = links.fence(connection)
            self._fences |= dict.fromkeys(new, fence)
        if open_ends := [row for row in draining if row not in self._ends]:
            with reading(self._engine, snapshot=True) as connection:
                for row in open_ends:
                    self._find(connection, row)
        return self._ends

    def forget(self) -> None:
        """Look for all ends again: the log has begun another branch."""
        for kept in (self._fences, self._committed, self._ends):
            kept.clear()

    def _find(self, connection: Connection, row: LinkRow) -> None:
        if row not in self._committed:
            committed = browsing(connection).committed(connection)
            if committed.window is not None and committed.window.xmin < self._fences[row]:
                return
            self._committed[row] = committed
        end = closed_at(connection, self._committed[row])
        if end is not None:
            self._ends[row] = end
