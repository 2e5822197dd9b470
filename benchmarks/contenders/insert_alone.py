"""No replication at all, and no copy either: what the application does by itself."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import text

from benchmarks.contender import Place
from benchmarks.contenders.tables import Databases
from benchmarks.workload import Entry

_TABLE: Final = "CREATE TABLE entries (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload bytea NOT NULL)"
_INSERT: Final = text("INSERT INTO entries (payload) VALUES (:payload)")


class InsertAlone:
    """One INSERT of each entry at the source; every destination is taken to have it then."""

    name = "INSERT alone"
    ordered = True

    def prepare(self, place: Place, destinations: int) -> None:
        """Make the table."""
        self._databases = databases = Databases(place.cluster, 0)
        databases.source(_TABLE)
        self._written = 0
        self._owed = [0] * destinations

    def transaction(self, entries: Sequence[Entry]) -> None:
        """Insert the entries."""
        with self._databases.engine.begin() as connection:
            connection.execute(_INSERT, [{"payload": entry.payload} for entry in entries])
        self._written += len(entries)
        for entry in entries:
            for target in entry.targets:
                self._owed[target] += 1

    def progress(self, destination: int) -> int:  # noqa: ARG002 - the same for all
        """Return the newest entry."""
        return self._written

    def stored(self, destination: int) -> tuple[int, int]:
        """Return what a destination would have."""
        return self._owed[destination], self._owed[destination]

    def close(self) -> None:
        """Drop the database."""
        self._databases.close()
