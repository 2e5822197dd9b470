"""A subscriber with an idle listener, against a bare loop that deletes batches of the same size."""

import threading
from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from typing import Any, Final

from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

import queues
from benchmarks.bars import OURS
from benchmarks.bench import Bench
from benchmarks.contenders.lrq_sites import CLIENT, LrqOnPostgreSQL
from benchmarks.contenders.tables import destination_name
from benchmarks.stream import Stream
from benchmarks.workload import Workload
from lr_client import RoutingQueueListener, subscribe
from queues.clock import SYSTEM_CLOCK
from queues.receive import log_blocks

NAME: Final = "subscriber"
SETTING: Final = "batches of 1,000"
_BATCH: Final = 1_000
_TABLE: Final = (
    "CREATE TABLE bare (queue_id integer, seq bigint, transaction_seq bigint NOT NULL, committed_us bigint NOT NULL,"
    " item_key text, payload bytea NOT NULL, PRIMARY KEY (queue_id, seq))"
)
_ROW: Final = text("INSERT INTO bare VALUES (:queue_id, :seq, :transaction_seq, :committed_us, :item_key, :payload)")
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
    """Fill a receive queue, copy its entries into a bare table, and empty both."""
    entries = bench.pick(5_000, 50_000)
    for run in range(bench.runs):
        lrq = LrqOnPostgreSQL()
        with bench.running(lrq, 1, NAME):
            stream = Stream(lrq, Workload(entries))
            stream.write(entries)
            stream.wait()
            lrq.source.stop()
            engine = queues.create_engine(bench.place.cluster.url(destination_name(0)))
            bench.place.cluster.execute(destination_name(0), _TABLE)
            _copy(engine)
            bench.place.cluster.execute(destination_name(0), "VACUUM ANALYZE")
            bench.place.cluster.settle()
            ways = (_subscribe, _bare) if run % 2 == 0 else (_bare, _subscribe)
            for way in ways:
                way(bench, engine, entries)
            engine.dispose()


def _copy(engine: Engine) -> None:
    with engine.begin() as connection:
        (queue_id,) = connection.execute(text("SELECT queue_id FROM lrq_receive_queues")).scalars()
        rows = log_blocks.rows(connection, queue_id, 0)
        while some := [{"queue_id": queue_id, **row._asdict()} for row in islice(rows, _BATCH)]:
            connection.execute(_ROW, some)


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
