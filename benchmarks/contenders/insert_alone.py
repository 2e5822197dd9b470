"""No replication and no copy: the cost of the application alone."""

from collections.abc import Sequence

from benchmarks.contender import Place
from benchmarks.contenders.tables import PLAIN, Databases, insert_plainly
from benchmarks.workload import Entry


class InsertAlone:
    """One INSERT per entry at the source; each destination then counts as having it."""

    name = "INSERT alone"
    ordered = True

    def prepare(self, place: Place, destinations: int) -> None:
        """Create the table."""
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
        """Return the newest entry at the source."""
        return self._written

    def stored(self, destination: int) -> tuple[int, int]:
        """Return the entries that a destination would have, less the ones missing at the source."""
        ((rows, different),) = self._databases.source("SELECT count(*), count(DISTINCT id) FROM entries")
        owed = self._owed[destination]
        return owed - (self._written - rows), owed - (self._written - different)

    def close(self) -> None:
        """Drop the database."""
        self._databases.close()
