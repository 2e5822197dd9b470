"""One tick of the live feed: its rows, routed and encoded once for all sessions that are owed the same."""

import threading
from collections.abc import Callable, Collection
from typing import Final

from lr_server.feed.router import RoutedRows, after_cut, encoded, owed_rows, owed_sets
from queues.names import SiteId
from queues.positions import Tick, Visibility
from queues.send_log.port import SessionKey, TickRows, size_of

#: The memory of a tick beyond its rows, and of each row beyond its `size_of`, in bytes.
_OVERHEAD: Final = 2048
_ROW_OVERHEAD: Final = 200


class RoutedTick:
    """A tick's rows; each selection of them is routed and encoded at most once.

    `size` is the approximate memory of rows and encoded blocks, in bytes. *grow* gets this object and the bytes of each
    new block. `is_published`: the feed holds and counts this tick.
    """

    def __init__(self, taken: TickRows, grow: Callable[["RoutedTick", int], None]) -> None:
        self.tick: Tick = taken.tick
        self._taken = taken
        self._grow = grow
        self._blocks: dict[tuple[str, frozenset[int]], RoutedRows] = {}
        self._guard = threading.Lock()
        self.size = size_of(taken.rows or ()) + _OVERHEAD + _ROW_OVERHEAD * len(taken.rows or ())
        self.is_published = False

    def has(self, taken: TickRows) -> bool:
        """Return whether this object was made of *taken*."""
        return self._taken is taken

    @property
    def sets(self) -> Collection[frozenset[SiteId]]:
        """The destinations of each set of the rows."""
        return self._taken.sets.values()

    @property
    def is_held(self) -> bool:
        """Whether the rows are in memory; a tick above the limits is read from the database in parts."""
        return self._taken.rows is not None

    def readers(self) -> Callable[[SessionKey], bool]:
        """Return a function that tells whether the tick may have rows for a session."""
        rows, sets = self._taken.rows, self._taken.sets
        if rows is None:
            return lambda _: True
        named: dict[str, set[SiteId]] = {}
        for client, number in {(row.client, row.tag_set) for row in rows}:
            named.setdefault(client, set()).update(sets.get(number, ()))
        return lambda owed: owed.destination in named.get(owed.client, ())

    def routed(self, owed: SessionKey) -> RoutedRows:
        """Return the session's rows."""
        numbers = owed_sets(self._taken.sets, owed.destination)
        if not numbers:
            return RoutedRows(None)
        key = (owed.client, numbers)
        with self._guard:
            if key not in self._blocks:
                found = self._blocks[key] = encoded(owed_rows(self._taken.rows or (), owed, numbers))
                self._grow(self, len(found.block.body) if found.block is not None else 0)
            return self._blocks[key]

    def routed_after(self, owed: SessionKey, cut: Visibility) -> RoutedRows:
        """Like `routed`, without the rows that a snapshot with this *cut* contains."""
        numbers = owed_sets(self._taken.sets, owed.destination)
        return encoded(after_cut(owed_rows(self._taken.rows or (), owed, numbers), cut))


def without_rows(tick: Tick) -> RoutedTick:
    """Return *tick* as one that has no rows for any session."""
    return RoutedTick(TickRows(tick, (), {}), lambda _tick, _bytes: None)
