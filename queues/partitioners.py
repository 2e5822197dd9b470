"""Partitioners divide the keys of a client into slots (docs/shards.md). Pure.

The text of a partitioner, as `range(g,n)`, is stored. Every process makes the same partitioner from that text.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from mmh3 import hash as hash32

from queues.errors import UsageError

#: The number of slots of the partitioners that hash.
SLOTS: Final = 1024


@runtime_checkable
class Partitioner(Protocol):
    """Divides keys into slots, equally in every process and at every time.

    A partitioner with the attribute `adapts = True` has its hottest slots moved to shards with less work.

    Example:
        >>> class FirstLetter:
        ...     def slots(self, shards):
        ...         return 26
        ...
        ...     def slot(self, key, slots):
        ...         return (ord(key[0].lower()) - ord("a")) % slots
    """

    def slots(self, shards: int) -> int:
        """Return the number of slots for *shards* shards, at least that many.

        Raises `UsageError` if the partitioner does not fit that number of shards.
        """
        ...

    def slot(self, key: str, slots: int) -> int:
        """Return the slot of *key*, from 0 to *slots* - 1; raise `UsageError` for a key without a slot."""
        ...


#: Makes a partitioner from the words between the parentheses.
PartitionerFactory = Callable[..., Partitioner]


def murmur3(key: str) -> int:
    """Return the hash of a key, from 0 to 2**32 - 1."""
    return int(hash32(key.encode(), signed=False))


@dataclass(frozen=True, slots=True)
class HashPartitioner:
    """Spreads keys by their hash; with *adapts*, the hottest slots move."""

    adapts: bool = False

    def slots(self, shards: int) -> int:
        """Return `SLOTS`."""
        del shards
        return SLOTS

    def slot(self, key: str, slots: int) -> int:
        """Return the hash of *key* modulo *slots*."""
        return murmur3(key) % slots


@dataclass(frozen=True, slots=True)
class KeyPartitioner:
    """The key is itself the number of its slot, modulo the number of slots."""

    def slots(self, shards: int) -> int:
        """Return `SLOTS`."""
        del shards
        return SLOTS

    def slot(self, key: str, slots: int) -> int:
        """Return the number *key* modulo *slots*; raise `UsageError` for another text."""
        if not (key.isascii() and key.isdecimal()):
            raise UsageError(
                f"the partition key {key!r} is no number: the partitioner key needs numbers, hash does not"
            )
        return int(key) % slots


@dataclass(frozen=True, slots=True)
class ModuloPartitioner:
    """The hash of the key modulo the number of nodes; each node is one shard."""

    nodes: tuple[int, ...] | None = None

    def slots(self, shards: int) -> int:
        """Return *shards*; raise `UsageError` unless the nodes are exactly 0 to *shards* - 1."""
        if self.nodes is not None and sorted(self.nodes) != list(range(shards)):
            named = ", ".join(map(str, self.nodes))
            raise UsageError(f"modulo names the nodes {named} for {shards} shards: name 0 to {shards - 1}, each once")
        return shards

    def slot(self, key: str, slots: int) -> int:
        """Return the hash of *key* modulo *slots*."""
        return murmur3(key) % slots


@dataclass(frozen=True, slots=True)
class RangePartitioner:
    """Slot k has the keys from bound k on, before bound k + 1. Slot 0 has all keys before the first bound."""

    bounds: tuple[str, ...]

    def slots(self, shards: int) -> int:
        """Return the number of ranges; raise `UsageError` if it is below *shards*."""
        ranges = len(self.bounds) + 1
        if ranges < shards:
            raise UsageError(
                f"range has {ranges} ranges for {shards} shards: name at least {shards - 1} bounds, as in range(g,n)"
            )
        return ranges

    def slot(self, key: str, slots: int) -> int:
        """Return the number of bounds at or before *key*."""
        del slots
        return bisect_right(self.bounds, key)


def _hash(*words: str) -> Partitioner:
    return _without_words("hash", words, HashPartitioner())


def _adaptive(*words: str) -> Partitioner:
    return _without_words("adaptive", words, HashPartitioner(adapts=True))


def _key(*words: str) -> Partitioner:
    return _without_words("key", words, KeyPartitioner())


def _without_words(name: str, words: Sequence[str], made: Partitioner) -> Partitioner:
    if words:
        raise UsageError(f"the partitioner {name} takes nothing between parentheses: write {name}")
    return made


def _modulo(*words: str) -> Partitioner:
    if any(not (word.isascii() and word.isdecimal()) for word in words):
        raise UsageError(f"modulo({','.join(words)}) names nodes that are no numbers: write modulo, or modulo(0,1)")
    return ModuloPartitioner(tuple(map(int, words)) if words else None)


def _range(*words: str) -> Partitioner:
    if list(words) != sorted(set(words)) or "" in words:
        raise UsageError(f"the bounds of range({','.join(words)}) do not rise: name each once, the lowest first")
    return RangePartitioner(words)


#: The partitioners of lrq by name; other packages add theirs by the entry point group "lrq.partitioners".
BUILT_IN: Final[dict[str, PartitionerFactory]] = {
    "adaptive": _adaptive,
    "hash": _hash,
    "key": _key,
    "modulo": _modulo,
    "range": _range,
}


def adapts(partitioner: Partitioner) -> bool:
    """Return whether the hottest slots of *partitioner* move."""
    return bool(getattr(partitioner, "adapts", False))
