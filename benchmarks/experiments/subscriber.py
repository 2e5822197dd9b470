"""A subscriber with an idle listener, against a bare loop that deletes batches of the same size."""

import threading
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final

from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

import queues
from benchmarks.bars import OURS
from benchmarks.bench import Bench
from benchmarks.contenders.lrq_sites import CLIENT, LrqOnPostgreSQL
from benchmarks.contenders.tables import destination_name
from benchmarks.stream import Stream
from benchmarks.workload import PER_TRANSACTION, Workload
from lr_client import RoutingQueueListener, subscribe
from queues.clock import SYSTEM_CLOCK

NAME: Final = "subscriber"
SETTING: Final = "batches of 1,000"
_BATCH: Final = 1_000
#: A queue of its own: the loop must not get cheaper or dearer with the tables of lrq.
_TABLE: Final = (
    "CREATE TABLE bare (queue_id integer, seq bigint, transaction_seq bigint NOT NULL, committed_us bigint NOT NULL,"
    " payload bytea NOT NULL, PRIMARY KEY (queue_id, seq))"
)
_FILL: Final = "INSERT INTO bare SELECT 1, * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bytea[])"
_DELETE: Final = text(
    f"DELETE FROM bare WHERE (queue_id, seq) IN (SELECT queue_id, seq FROM bare ORDER BY queue_id, seq LIMIT {_BATCH})"
    " RETURNING seq, payload"
)


class Counting(RoutingQueueListener):
    """Counts entries, and sets `enough` after *wanted* of them."""

    client_name = CLIENT

    def __init__(self, wanted: int) -> None:
        """Expect *wanted* entries."""
        self._left = wanted
        self.enough = threading.Event()

    def process_updates_in_log_entry_sync(self, session: Session, source_id: str, entries: Sequence[Any]) -> bool:  # noqa: ARG002
        """Count the entries."""
        self._left -= len(entries)
        if self._left <= 0:
            self.enough.set()
        return True

    process_updates_in_snapshot_sync = process_updates_in_log_entry_sync


def measure(bench: Bench) -> None:
    """Fill a receive queue and a plain table with the same entries, and empty both."""
    entries = bench.pick(5_000, 200_000)
    for run in range(bench.runs):
        lrq = LrqOnPostgreSQL()
        with bench.running(lrq, 1, NAME):
            stream = Stream(lrq, Workload(entries))
            stream.write(entries)
            stream.wait()
            lrq.source.stop()
            engine = queues.create_engine(bench.place.cluster.url(destination_name(0)))
            _fill(bench, stream)
            bench.place.cluster.execute(destination_name(0), "VACUUM ANALYZE")
            bench.place.cluster.settle()
            ways = (_subscribe, _bare) if run % 2 == 0 else (_bare, _subscribe)
            for way in ways:
                way(bench, engine, entries)
            engine.dispose()


def _fill(bench: Bench, stream: Stream) -> None:
    """Insert the entries of *stream* into a plain table, a thousand a transaction."""
    with bench.place.cluster.connect(destination_name(0)) as connection, connection.cursor(binary=True) as cursor:
        cursor.execute(_TABLE)
        for first in range(0, stream.written, _BATCH):
            seqs = list(range(first + 1, min(first + _BATCH, stream.written) + 1))
            transactions = [(seq - 1) // PER_TRANSACTION * PER_TRANSACTION + 1 for seq in seqs]
            payloads = [stream.entry(seq - 1).payload for seq in seqs]
            cursor.execute(_FILL, (seqs, transactions, seqs, payloads))


def _subscribe(bench: Bench, engine: Engine, entries: int) -> None:
    listener = Counting(entries)
    began = SYSTEM_CLOCK.monotonic()
    with closing(subscribe(engine, listener, max_batch_entries=_BATCH)):
        if not listener.enough.wait(300):
            raise TimeoutError("the subscriber did not get all entries within 300 s")
    took = SYSTEM_CLOCK.monotonic() - began
    bench.book.add(NAME, SETTING, OURS, **{"entries/s": entries / took})


def _bare(bench: Bench, engine: Engine, entries: int) -> None:
    began, left = SYSTEM_CLOCK.monotonic(), entries
    while left:
        with Session(engine) as session, session.begin():
            left -= len(session.execute(_DELETE).all())
    took = SYSTEM_CLOCK.monotonic() - began
    bench.book.add(NAME, SETTING, "DELETE … RETURNING", **{"entries/s": entries / took})
