"""No replication: the cost of the writer and of the destinations' tables alone.

The writer has every row already, so it reads nothing back and sends nothing to another process. The writer keeps no
position and loses uncopied rows at its end. Latency is ignored: `progress` copies the remaining rows.
"""

from collections.abc import Sequence
from typing import Final

import psycopg

from benchmarks.contender import Place
from benchmarks.contenders.tables import PLAIN, Databases, insert_plainly
from benchmarks.workload import Entry
from queues.database.postgresql.binary_copy import binary_copy

_COPY: Final = "COPY entries (id, payload) FROM STDIN (FORMAT BINARY)"
#: Rows per COPY, about as many as lrq sends at a time under load.
_AT_A_TIME: Final = 400


class BareCopy:
    """One INSERT per entry at the source, one COPY per 400 rows at each destination."""

    name = "bare COPY"
    ordered = True

    def prepare(self, place: Place, destinations: int) -> None:
        """Create the tables and connect to them."""
        self._databases = databases = Databases(place.cluster, destinations)
        databases.source(PLAIN)
        self._sinks: list[psycopg.Connection[tuple[object, ...]]] = []
        for sink in databases.sinks:
            self._sinks.append(place.cluster.connect(sink))
            self._sinks[-1].execute("SET synchronous_commit = off")
        self._rows: list[list[tuple[int, bytes]]] = [[] for _ in self._sinks]
        self._written = 0

    def transaction(self, entries: Sequence[Entry]) -> None:
        """Insert the entries; copy the rows of each destination that has enough of them."""
        with self._databases.engine.begin() as connection:
            insert_plainly(connection, entries)
        for entry in entries:
            self._written += 1
            for target in entry.targets:
                self._rows[target].append((self._written, entry.payload))
        for number, rows in enumerate(self._rows):
            if len(rows) >= _AT_A_TIME:
                self._copy(number)

    def _copy(self, number: int) -> None:
        rows, self._rows[number] = self._rows[number], []
        if rows:
            with self._sinks[number].cursor().copy(_COPY) as copy:
                copy.write(binary_copy(["bigint", "bytea"], list(zip(*rows, strict=True))))

    def progress(self, destination: int) -> int:
        """Copy the remaining rows and return the newest entry at the destination."""
        self._copy(destination)
        return self._databases.newest(destination)

    def stored(self, destination: int) -> tuple[int, int]:
        """Count the rows of the destination."""
        return self._databases.stored(destination)

    def close(self) -> None:
        """Close the connections and drop the databases."""
        for sink in self._sinks:
            sink.close()
        self._databases.close()
