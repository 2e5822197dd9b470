"""The values used last, up to a total weight."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class WeightedCache(Generic[Key, Value]):
    """Remembers values whose weights differ much, so that a number of them would limit no memory. For one thread."""

    def __init__(self, most: int) -> None:
        """Let `trim` keep values with a weight of at most *most* in all."""
        self._most = most
        self._weight = 0
        self._values: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def __contains__(self, key: Key) -> bool:
        """Whether a value is remembered, which is no use of it."""
        return key in self._values

    def __len__(self) -> int:
        """The number of values."""
        return len(self._values)

    def get(self, key: Key) -> Value | None:
        """Return a value, which counts as used last now; None if there is none."""
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def put(self, key: Key, value: Value, weight: int) -> None:
        """Remember a value in place of an earlier one, at least until the next `trim`."""
        _, before = self._values.pop(key, (None, 0))
        self._values[key] = value, weight
        self._weight += weight - before

    def trim(self) -> None:
        """Forget the values that were used least lately, until the rest is light enough."""
        while self._weight > self._most:
            _, (_, weight) = self._values.popitem(last=False)
            self._weight -= weight

    def clear(self) -> None:
        """Forget all values."""
        self._values.clear()
        self._weight = 0
