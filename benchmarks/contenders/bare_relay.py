"""The smallest relay outside of PostgreSQL: it copies the entries of one client to one destination.

The relay has no order of commits, no owner and no second machine, and forgets its position at its end.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Final

import psycopg
from sqlalchemy import text

from benchmarks.contender import Place
from benchmarks.contenders.carried import Carried
from benchmarks.contenders.tables import PLAIN, SOURCE, Databases, insert_plainly
from benchmarks.contenders.workers import Told
from benchmarks.workload import Entry
from queues.database.postgresql.binary_copy import binary_copy

_TICKS: Final = "CREATE TABLE ticks (last_id bigint PRIMARY KEY)"
_TELL: Final = text("NOTIFY bench")
_NEW: Final = "SELECT id, payload FROM entries WHERE id > %s ORDER BY id"
_TICK: Final = "INSERT INTO ticks (last_id) VALUES (%s)"
_COPY: Final = "COPY entries (id, payload) FROM STDIN (FORMAT BINARY)"

Rows = list[tuple[int, bytes]]


class BareRelay(Carried):
    """One process: NOTIFY wakes it; each time it makes one read and one COPY, with a durable commit."""

    name = "bare relay"

    def prepare(self, place: Place, destinations: int) -> None:
        """Create the databases and start the relay."""
        assert destinations == 1
        self._databases = databases = Databases(place.cluster, 1)
        databases.source(PLAIN, _TICKS)
        self._start(place.cluster.conninfo(SOURCE), place.cluster.conninfo(databases.sinks[0]))
        self._workers.wait_ready()

    def _start(self, source: str, sink: str) -> None:
        self._workers.start(_relay, source, sink)

    def transaction(self, entries: Sequence[Entry]) -> None:
        """Insert the entries and notify the relay."""
        with self._databases.engine.begin() as connection:
            insert_plainly(connection, entries)
            connection.execute(_TELL)


class BareTickRelay(BareRelay):
    """As lrq must, records each read durably at the source before another process applies the rows."""

    name = "bare relay with ticks"

    def _start(self, source: str, sink: str) -> None:
        outgoing, incoming = Pipe()
        self._workers.start(_take, source, outgoing)
        self._workers.start(_apply, sink, incoming)
        outgoing.close()
        incoming.close()


def _relay(told: Told, source: str, sink: str) -> None:
    with psycopg.connect(source, autocommit=True) as there, psycopg.connect(sink, autocommit=True) as here:
        for rows in _news(told, there):
            _copy(here, rows)


def _take(told: Told, source: str, outgoing: Connection) -> None:
    with psycopg.connect(source, autocommit=True) as there:
        for rows in _news(told, there):
            there.execute(_TICK, (rows[-1][0],), prepare=True)
            outgoing.send(rows)


def _apply(told: Told, sink: str, incoming: Connection) -> None:
    # The pipe closes at the end of the reading process.
    with psycopg.connect(sink, autocommit=True) as here, suppress(EOFError):
        told.ready()
        while not told.over():
            if incoming.poll(0.1):
                _copy(here, incoming.recv())


def _news(told: Told, source: psycopg.Connection[Any]) -> Iterator[Rows]:
    last = 0
    source.execute("LISTEN bench")
    told.ready()
    while not told.over():
        # The loop over `notifies` must end first: the driver allows no query inside it.
        if list(source.notifies(timeout=0.1, stop_after=1)):
            rows = source.execute(_NEW, (last,), binary=True, prepare=True).fetchall()
            if rows:
                last = rows[-1][0]
                yield rows


def _copy(sink: psycopg.Connection[Any], rows: Rows) -> None:
    with sink.cursor().copy(_COPY) as copy:  # durable: `synchronous_commit` is on
        copy.write(binary_copy(["bigint", "bytea"], list(zip(*rows, strict=True))))
