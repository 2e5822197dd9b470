"""The least that a program of its own needs for one destination: told of a commit, it reads, copies and commits.

It is right only while one client writes: it knows no order of commits, one destination, no owner, no other machine.
"""

from collections.abc import Sequence
from typing import Final

import psycopg
from sqlalchemy import text

from benchmarks.contender import Place
from benchmarks.contenders.tables import SOURCE, Databases
from benchmarks.contenders.workers import Told, Workers
from benchmarks.workload import Entry
from queues.dialects.binary_copy import binary_copy

_TABLE: Final = "CREATE TABLE entries (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload bytea NOT NULL)"
_INSERT: Final = text("INSERT INTO entries (payload) VALUES (:payload)")
_TELL: Final = text("NOTIFY bench")
_NEW: Final = "SELECT id, payload FROM entries WHERE id > %s ORDER BY id"
_COPY: Final = "COPY entries (id, payload) FROM STDIN (FORMAT BINARY)"


class BareRelay:
    """One process: woken up by NOTIFY, one read, one COPY in one durable transaction."""

    name = "bare relay"
    ordered = True

    def prepare(self, place: Place, destinations: int) -> None:
        """Start it."""
        assert destinations == 1
        self._workers = Workers()
        self._databases = databases = Databases(place.cluster, 1)
        databases.source(_TABLE)
        self._workers.start(relay, place.cluster.conninfo(SOURCE), place.cluster.conninfo(databases.sinks[0]))
        self._workers.wait_ready()

    def transaction(self, entries: Sequence[Entry]) -> None:
        """Insert the entries and tell."""
        with self._databases.engine.begin() as connection:
            connection.execute(_INSERT, [{"payload": entry.payload} for entry in entries])
            connection.execute(_TELL)

    def progress(self, destination: int) -> int:
        """Return the newest entry that is there."""
        return self._databases.newest(destination)

    def stored(self, destination: int) -> tuple[int, int]:
        """Count the rows of the destination."""
        return self._databases.stored(destination)

    def close(self) -> None:
        """Stop it and drop the databases."""
        self._workers.stop()
        self._databases.close()


def relay(told: Told, source: str, sink: str) -> None:
    """Move what is new whenever the source tells."""
    last = 0
    with psycopg.connect(source, autocommit=True) as there, psycopg.connect(sink, autocommit=True) as here:
        there.execute("LISTEN bench")
        told.ready()
        while not told.over():
            if not list(there.notifies(timeout=0.1, stop_after=1)):  # not inside it: it has the connection to itself
                continue
            rows = there.execute(_NEW, (last,), binary=True, prepare=True).fetchall()
            if rows:
                last = rows[-1][0]
                with here.cursor().copy(_COPY) as copy:  # durable: `synchronous_commit` is on
                    copy.write(binary_copy(["bigint", "bytea"], list(zip(*rows, strict=True))))
