"""lrq on SQLite against its bare cost: the same inserts, then a bulk insert into another file."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from sqlalchemy import text

import queues
from benchmarks.bench import Bench
from benchmarks.contenders.lrq_sites import LrqOnSQLite
from benchmarks.stream import Stream
from benchmarks.workload import Workload
from queues.clock import SYSTEM_CLOCK

NAME: Final = "sqlite"
SETTING: Final = "1 destination"
_TABLE: Final = "CREATE TABLE entries (id INTEGER PRIMARY KEY, payload BLOB NOT NULL)"
_INSERT: Final = text("INSERT INTO entries (payload) VALUES (:payload)")
_AT_ONCE: Final = 5_000


def measure(bench: Bench) -> None:
    """Write the same number of entries both ways."""
    workload = Workload(bench.pick(3_000, 50_000))
    for _, way in bench.rounds((_lrq, _bare)):
        way(bench, workload)


def _lrq(bench: Bench, workload: Workload) -> None:
    lrq = LrqOnSQLite()
    with bench.running(lrq, 1, NAME):
        stream = Stream(lrq, workload)
        stream.write(500)
        stream.wait()
        began = SYSTEM_CLOCK.monotonic()
        stream.write(workload.entries)
        stream.wait()
        bench.book.add(NAME, SETTING, lrq.name, **{"entries/s": workload.entries / (SYSTEM_CLOCK.monotonic() - began)})
        stream.check()


def _bare(bench: Bench, workload: Workload) -> None:
    here, there = (bench.place.folder / name for name in ("bare-here.db", "bare-there.db"))
    engine = queues.create_engine(f"sqlite:///{here}")
    with engine.begin() as connection:
        connection.execute(text(_TABLE))
    began = SYSTEM_CLOCK.monotonic()
    for entries in workload.transactions():
        with engine.begin() as connection:
            connection.execute(_INSERT, [{"payload": entry.payload} for entry in entries])
    _copy(here, there)
    bench.book.add(
        NAME, SETTING, "bare inserts", **{"entries/s": workload.entries / (SYSTEM_CLOCK.monotonic() - began)}
    )
    engine.dispose()
    for file in (here, there):
        for each in file.parent.glob(f"{file.name}*"):
            each.unlink()


def _copy(here: Path, there: Path) -> None:
    with closing(sqlite3.connect(here)) as source, closing(sqlite3.connect(there)) as sink:
        sink.executescript(f"PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; {_TABLE};")
        for rows in _batches(source.execute("SELECT id, payload FROM entries ORDER BY id")):
            with sink:
                sink.executemany("INSERT INTO entries VALUES (?, ?)", rows)


def _batches(cursor: sqlite3.Cursor) -> Iterator[list[tuple[int, bytes]]]:
    while rows := cursor.fetchmany(_AT_ONCE):
        yield rows
