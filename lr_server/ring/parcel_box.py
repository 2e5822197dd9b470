"""A bounded queue between threads. A full box loses further items, because messages of a ring may be lost."""

import threading
from collections import deque
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")

#: The most items of a box, and the most bytes of all together.
MOST_ITEMS: Final = 256
MOST_BOX_BYTES: Final = 32 * 1024 * 1024


class ParcelBox(Generic[Item]):
    """Items in their order, for any number of threads. One item may be larger than all limits."""

    def __init__(self, items: int = MOST_ITEMS, size: int = MOST_BOX_BYTES) -> None:
        self._items: deque[tuple[Item, int]] = deque()
        self._most, self._most_bytes = items, size
        self._bytes = 0
        self._is_closed = False
        self._changed = threading.Condition()

    def put(self, item: Item, size: int = 0) -> bool:
        """Add *item* of *size* bytes; return False if the box is full or closed."""
        with self._changed:
            is_full = len(self._items) >= self._most or self._bytes + size > self._most_bytes
            if self._is_closed or (is_full and self._items):
                return False
            self._items.append((item, size))
            self._bytes += size
            self._changed.notify()
            return True

    def get(self, timeout: float) -> Item | None:
        """Return the first item; None if none comes within *timeout* seconds, or if the box is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._is_closed, max(timeout, 0.0))
            if not self._items:
                return None
            item, size = self._items.popleft()
            self._bytes -= size
            return item

    def clear(self) -> None:
        """Drop all items."""
        with self._changed:
            self._items.clear()
            self._bytes = 0

    def close(self) -> list[Item]:
        """Take no more items, and return those that still wait; a waiting `get` returns at once."""
        with self._changed:
            self._is_closed = True
            left = [item for item, _ in self._items]
            self._items.clear()
            self._bytes = 0
            self._changed.notify_all()
            return left
