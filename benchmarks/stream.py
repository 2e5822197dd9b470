"""Write entries through a contender, and wait until they have arrived at every destination."""

from typing import Final

from benchmarks.cluster import until
from benchmarks.contender import Contender
from benchmarks.workload import PER_TRANSACTION, Entry, Workload

_TIMEOUT: Final = 600.0


class Stream:
    """The entries written through one contender, and their numbers per destination."""

    def __init__(self, contender: Contender, workload: Workload) -> None:
        """Take the entries from *workload*, in order and without end."""
        self.contender = contender
        self._workload = workload
        self.written = 0
        self.owed = [0] * workload.destinations
        self.last = [0] * workload.destinations

    def write(self, entries: int) -> None:
        """Write *entries* more entries, in transactions."""
        for _ in range(0, entries, PER_TRANSACTION):
            self.transaction()

    def entry(self, number: int) -> Entry:
        """Return the entry of *number*, from 0."""
        return self._workload.entry(number)

    def transaction(self) -> None:
        """Write the entries of one transaction."""
        entries = [self.entry(self.written + number) for number in range(PER_TRANSACTION)]
        self.contender.transaction(entries)
        self._count(entries)

    def _count(self, entries: list[Entry]) -> None:
        for entry in entries:
            self.written += 1
            for target in entry.targets:
                self.owed[target] += 1
                self.last[target] = self.written

    def is_there(self, destination: int) -> bool:
        """Return whether a destination has all its entries."""
        wanted = self.last if self.contender.ordered else self.owed
        return self.contender.progress(destination) >= wanted[destination]

    def wait(self, timeout: float = _TIMEOUT) -> None:
        """Wait until every destination has all its entries."""
        every = 0.005 if self.contender.ordered else 0.05
        for destination in range(len(self.owed)):
            until(lambda number=destination: self.is_there(number), timeout, every)  # type: ignore[misc]

    def check(self) -> None:
        """Raise `AssertionError` unless every destination has each of its entries once."""
        for destination, owed in enumerate(self.owed):
            rows, different = self.contender.stored(destination)
            if not rows == different == owed:
                name = self.contender.name
                raise AssertionError(f"{name}: {owed} entries owed, {rows} stored, {different} different ones")
