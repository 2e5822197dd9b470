"""The workload: entries of 1 KiB, ten per transaction, each for some of the destinations."""

import base64
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Final, NamedTuple

PAYLOAD_BYTES: Final = 1024
PER_TRANSACTION: Final = 10
#: More than are ever compressed together: repeated payloads would compress too well.
_DIFFERENT = 5_000


class Entry(NamedTuple):
    """One payload and the numbers of its destinations."""

    payload: bytes
    targets: tuple[int, ...]

    @property
    def mask(self) -> int:
        """The destinations as a bit mask."""
        return sum(1 << target for target in self.targets)


@dataclass(frozen=True, slots=True)
class Workload:
    """A number of entries; each goes to *each_to* of the destinations."""

    entries: int
    destinations: int = 1
    each_to: int = 1

    @property
    def deliveries(self) -> int:
        """The number of rows that all destinations receive together."""
        return self.entries * self.each_to

    def entry(self, number: int) -> Entry:
        """Return the entry of *number*, always the same one."""
        sets = _sets(self.destinations, self.each_to)
        return Entry(payloads()[number % _DIFFERENT], sets[number * 37 % len(sets)])

    def transactions(self) -> Iterator[list[Entry]]:
        """Give the entries of each transaction."""
        for first in range(0, self.entries, PER_TRANSACTION):
            yield [self.entry(n) for n in range(first, min(first + PER_TRANSACTION, self.entries))]

    def owed(self) -> list[int]:
        """Return the number of entries for each destination."""
        counts = [0] * self.destinations
        for number in range(self.entries):
            for target in self.entry(number).targets:
                counts[target] += 1
        return counts


@cache
def payloads() -> tuple[bytes, ...]:
    """Return different payloads of printable text that compresses little, because PgQ carries text only."""
    chance = random.Random(4)
    return tuple(base64.b64encode(chance.randbytes(PAYLOAD_BYTES * 3 // 4)) for _ in range(_DIFFERENT))


@cache
def _sets(destinations: int, each_to: int) -> tuple[tuple[int, ...], ...]:
    return tuple(combinations(range(destinations), each_to))
