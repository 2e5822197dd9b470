"""The bytes on the sink's disk for each entry that is received and not applied.

On PostgreSQL the bytes are those of all tables with their indexes and TOAST, after a checkpoint. WAL is not counted,
because its files are used again. On SQLite the bytes are those of the file, after its WAL was moved into the file. The
empty tables of before the first entry are subtracted.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Final

from benchmarks.bench import Bench
from benchmarks.cluster import until
from benchmarks.contender import Contender
from benchmarks.contenders.logical import LogicalReplication
from benchmarks.contenders.lrq_sites import LrqOnPostgreSQL, LrqOnSQLite
from benchmarks.contenders.tables import destination_name
from benchmarks.issue_bars import ONE_KIB, UNAPPLIED
from benchmarks.stream import Stream
from benchmarks.workload import PAYLOAD_BYTES, Workload

NAME: Final = "stored"
_UNIT: Final = "KiB per entry"
_KIB: Final = 1024
#: Catalogs grow by themselves, so only tables outside of them count.
_TABLES: Final = (
    "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c"
    " JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relkind IN ('r', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')"
)

Sizes = Callable[[Bench], int]


def measure(bench: Bench) -> None:
    """Fill a receive queue without a subscriber, at full speed; beside it the table of logical replication."""
    workload = Workload(bench.pick(5_000, 50_000))
    ways: tuple[tuple[Callable[[], Contender], Sizes], ...] = (
        (LrqOnPostgreSQL, _of_tables),
        (LrqOnSQLite, _of_file),
        (LogicalReplication, _of_tables),
    )
    for _, (make, size) in bench.rounds(ways):
        contender = make()
        with bench.running(contender, 1, f"{NAME}, {UNAPPLIED}"):
            empty = size(bench)
            stream = Stream(contender, workload)
            stream.write(workload.entries)
            stream.wait()
            grown = size(bench) - empty
            bench.book.add(NAME, UNAPPLIED, contender.name, **{_UNIT: grown / workload.entries / _KIB})
            bench.book.add(NAME, UNAPPLIED, ONE_KIB, **{_UNIT: PAYLOAD_BYTES / _KIB})


def _of_tables(bench: Bench) -> int:
    bench.place.cluster.settle()
    return int(bench.place.cluster.execute(destination_name(0), _TABLES)[0][0])


def _of_file(bench: Bench) -> int:
    file = bench.place.folder / f"{destination_name(0)}.db"
    with closing(sqlite3.connect(file)) as database:
        # The first column is 1 while a reader of the server is in the way.
        until(lambda: database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0, 60)
    return file.stat().st_size
