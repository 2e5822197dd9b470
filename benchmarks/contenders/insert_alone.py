"""No replication at all, and no copy either: what the application does by itself."""

from collections.abc import Sequence

from benchmarks.contender import Place
from benchmarks.contenders.tables import PLAIN, Databases, insert_plainly
from benchmarks.workload import Entry


class InsertAlone:
    """One INSERT of each entry at the source; every destination is taken to have it then."""

    name = "INSERT alone"
    ordered = True

    def prepare(self, place: Place, destinations: int) -> None:
        """Make the table."""
        self._databases = databases = Databases(place.cluster, 0)
        databases.source(PLAIN)
        self._written = 0
        self._owed = [0] * destinations

    def transaction(self, entries: Sequence[Entry]) -> None:
        """Insert the entries."""
        with self._databases.engine.begin() as connection:
            insert_plainly(connection, entries)
        self._written += len(entries)
        for entry in entries:
            for target in entry.targets:
                self._owed[target] += 1

    def progress(self, destination: int) -> int:  # noqa: ARG002 - the same for all
        """Return the newest entry."""
        return self._written

    def stored(self, destination: int) -> tuple[int, int]:
        """Return what a destination would have, without what is missing at the source."""
        ((rows, different),) = self._databases.source("SELECT count(*), count(DISTINCT id) FROM entries")
        owed = self._owed[destination]
        return owed - (self._written - rows), owed - (self._written - different)

    def close(self) -> None:
        """Drop the database."""
        self._databases.close()
