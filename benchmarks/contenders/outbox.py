"""A home-made outbox: one row per destination, taken with `FOR UPDATE SKIP LOCKED` and then deleted.

The outbox keeps no order between transactions. The destination commits first, and ignores a row that comes twice.
"""

from collections.abc import Sequence
from typing import Final

import psycopg
from sqlalchemy import text

from benchmarks.contender import Place
from benchmarks.contenders.carried import CarriedUnordered
from benchmarks.contenders.tables import SOURCE, Databases
from benchmarks.contenders.workers import Told
from benchmarks.workload import Entry

_TABLE: Final = (
    "CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    " sink int NOT NULL, payload bytea NOT NULL)",
    "CREATE INDEX ON outbox (sink, id)",
)
_INSERT = text("INSERT INTO outbox (sink, payload) VALUES (:sink, :payload)")
_TAKE: Final = (
    "WITH taken AS (SELECT id FROM outbox WHERE sink = %s ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1000) "
    "DELETE FROM outbox USING taken WHERE outbox.id = taken.id RETURNING outbox.id, outbox.payload"
)


class Outbox(CarriedUnordered):
    """An outbox with one poller per destination."""

    name = "home-made outbox"

    def prepare(self, place: Place, destinations: int) -> None:
        """Start the pollers."""
        self._databases = databases = Databases(place.cluster, destinations)
        databases.source(*_TABLE)
        for number, sink in enumerate(databases.sinks):
            self._workers.start(poll, place.cluster.conninfo(SOURCE), place.cluster.conninfo(sink), number)
        self._workers.wait_ready()

    def transaction(self, entries: Sequence[Entry]) -> None:
        """Insert one row per entry and destination."""
        rows = [{"sink": target, "payload": entry.payload} for entry in entries for target in entry.targets]
        with self._databases.engine.begin() as connection:
            connection.execute(_INSERT, rows)


def poll(told: Told, source: str, sink: str, number: int) -> None:
    """Move the rows of one destination; pause briefly after an empty read."""
    with psycopg.connect(source, autocommit=True) as there, psycopg.connect(sink, autocommit=True) as here:
        told.ready()
        while not told.over():
            with there.transaction():
                rows = there.execute(_TAKE, (number,), binary=True).fetchall()
                with here.transaction():
                    here.cursor().executemany("INSERT INTO entries VALUES (%s, %s) ON CONFLICT DO NOTHING", rows)
            if not rows:
                told.over(0.01)
