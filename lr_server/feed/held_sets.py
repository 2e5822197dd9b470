"""The memory of the destination sets that ticks of the feed hold: ticks with the same set share its names."""

from collections.abc import Iterable
from typing import Final

from queues.names import SiteId

#: The approximate memory of one name in a set, in bytes.
NAME_BYTES: Final = 160


class HeldSets:
    """Counts the ticks that hold each set. Not for several threads."""

    def __init__(self) -> None:
        # By identity, because equal sets may be in memory twice. A held set keeps its identity.
        self._holders: dict[int, int] = {}

    def add(self, sets: Iterable[frozenset[SiteId]]) -> int:
        """Note the sets of a new tick; return the bytes of those that no other tick holds."""
        more = 0
        for names in sets:
            held = self._holders.get(id(names), 0)
            self._holders[id(names)] = held + 1
            more += 0 if held else len(names) * NAME_BYTES
        return more

    def remove(self, sets: Iterable[frozenset[SiteId]]) -> int:
        """Note the end of a tick; return the bytes of its sets that no other tick holds."""
        less = 0
        for names in sets:
            held = self._holders.pop(id(names))
            if held > 1:
                self._holders[id(names)] = held - 1
            else:
                less += len(names) * NAME_BYTES
        return less
