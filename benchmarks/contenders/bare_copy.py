"""No replication at all: what the writer and the tables of the destinations cost by themselves.

The program that writes knows every row already. It keeps no position, reads nothing back, sends nothing to another
process and loses what it has not copied yet when it ends. It asks for no latency: what is left is copied when asked.
"""

from collections.abc import Sequence
from typing import Final

import psycopg

from benchmarks.contender import Place
from benchmarks.contenders.tables import PLAIN, Databases, insert_plainly
from benchmarks.workload import Entry
from queues.dialects.binary_copy import binary_copy

_COPY: Final = "COPY entries (id, payload) FROM STDIN (FORMAT BINARY)"
#: Rows that a destination gets at a time, about as many as lrq sends under load.
_AT_A_TIME: Final = 400


class BareCopy:
    """One INSERT of each entry at the source, one COPY of 400 rows after the other at each destination."""

    name = "bare COPY"
    ordered = True

    def prepare(self, place: Place, destinations: int) -> None:
        """Make the tables and connect to them."""
        self._databases = databases = Databases(place.cluster, destinations)
        databases.source(PLAIN)
        self._sinks: list[psycopg.Connection[tuple[object, ...]]] = []
        for sink in databases.sinks:
            self._sinks.append(place.cluster.connect(sink))
            self._sinks[-1].execute("SET synchronous_commit = off")
        self._rows: list[list[tuple[int, bytes]]] = [[] for _ in self._sinks]
        self._written = 0

    def transaction(self, entries: Sequence[Entry]) -> None:
        """Insert the entries; copy what is enough for a destination."""
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
        """Copy the rest and return the newest entry that is there."""
        self._copy(destination)
        return self._databases.newest(destination)

    def stored(self, destination: int) -> tuple[int, int]:
        """Count the rows of the destination."""
        return self._databases.stored(destination)

    def close(self) -> None:
        """Drop everything."""
        for sink in self._sinks:
            sink.close()
        self._databases.close()
