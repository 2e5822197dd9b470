"""PgQ with the best ordered apply loop that we can write for it.

The ticker runs every 20 ms, as often as lrq takes ticks. Each destination has a process that filters its batch at the
server and moves it with binary COPY. The process commits each batch once, asynchronously like the other appliers. The
number of the batch is part of that transaction, so that no batch is applied twice.
"""

from collections.abc import Sequence
from typing import Final

import psycopg
from sqlalchemy import text

from benchmarks.contender import Place
from benchmarks.contenders.carried import Carried
from benchmarks.contenders.tables import ENTRIES, SOURCE, Databases
from benchmarks.contenders.workers import Told
from benchmarks.workload import Entry

QUEUE: Final = "bench"
TICK_SECONDS: Final = 0.02
_INSERT = text(
    "SELECT count(pgq.insert_event('bench', 'entry', e.payload, e.mask, NULL, NULL, NULL))"
    " FROM unnest(CAST(:payloads AS text[]), CAST(:masks AS text[])) AS e (payload, mask)"
)
_CONFIGURE = (
    "SELECT pgq.create_queue('bench')",
    "SELECT pgq.set_queue_config('bench', 'ticker_max_count', '1')",
    "SELECT pgq.set_queue_config('bench', 'ticker_max_lag', '0 seconds')",
)


class PgQ(Carried):
    """PgQ with one queue and one consumer per destination."""

    name = "PgQ, best loop"

    def prepare(self, place: Place, destinations: int) -> None:
        """Create the queue; start the ticker and the consumers."""
        self._databases = databases = Databases(place.cluster, destinations, ENTRIES)
        databases.source("CREATE EXTENSION pgq", *_CONFIGURE)
        for number, sink in enumerate(databases.sinks):
            databases.source(f"SELECT pgq.register_consumer('bench', 'sink{number}')")
            self._consume(place, number, sink)
        self._workers.start(tick, place.cluster.conninfo(SOURCE))
        self._workers.wait_ready()

    def _consume(self, place: Place, number: int, sink: str) -> None:
        place.cluster.execute(sink, "CREATE TABLE applied (batch bigint PRIMARY KEY)")
        self._workers.start(apply, place.cluster.conninfo(SOURCE), place.cluster.conninfo(sink), number)

    def transaction(self, entries: Sequence[Entry]) -> None:
        """Insert the events in one statement."""
        payloads = [entry.payload.decode() for entry in entries]
        masks = [str(entry.mask) for entry in entries]
        with self._databases.engine.begin() as connection:
            connection.execute(_INSERT, {"payloads": payloads, "masks": masks})


def tick(told: Told, source: str) -> None:
    """Run PgQ's ticker every 20 ms."""
    with psycopg.connect(source, autocommit=True) as connection:
        told.ready()
        while not told.over(TICK_SECONDS):
            connection.execute("SELECT pgq.ticker('bench')")


def apply(told: Told, source: str, sink: str, number: int) -> None:
    """Apply the batches of one destination in order."""
    with psycopg.connect(source, autocommit=True) as there, psycopg.connect(sink, autocommit=True) as here:
        here.execute("SET synchronous_commit = off")
        told.ready()
        while not told.over():
            row = there.execute("SELECT pgq.next_batch('bench', %s)", (f"sink{number}",)).fetchone()
            batch = row[0] if row else None
            if batch is None:
                told.over(0.002)
            else:
                _apply(there, here, int(batch), 1 << number)


def _apply(
    there: psycopg.Connection[tuple[object, ...]], here: psycopg.Connection[tuple[object, ...]], batch: int, mask: int
) -> None:
    sql = there.execute("SELECT pgq.batch_event_sql(%s)", (batch,)).fetchone()
    assert sql is not None
    rows = str(sql[0]).replace(" order by 1", "")
    events = f"SELECT ev_id, ev_data FROM ({rows}) e WHERE (ev_extra1::bigint & {mask}) <> 0 ORDER BY 1"
    out, into = f"COPY ({events}) TO STDOUT (FORMAT binary)", "COPY entries (id, payload) FROM STDIN (FORMAT binary)"
    with here.transaction():
        fresh = here.execute("INSERT INTO applied VALUES (%s) ON CONFLICT DO NOTHING", (batch,)).rowcount
        if fresh:
            with there.cursor().copy(out) as read, here.cursor().copy(into) as write:
                for block in read:
                    write.write(block)
    there.execute("SELECT pgq.finish_batch(%s)", (batch,))
