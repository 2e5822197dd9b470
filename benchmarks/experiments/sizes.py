"""What stays of many entries once they have arrived, and what a held snapshot leaves behind.

For what stays, segments of the log are closed after two seconds instead of a minute, so that the run does not wait for
them. The sinks keep nothing: it is the source that is measured.
"""

from typing import Final

from sqlalchemy import TextClause, text

from benchmarks.bars import OURS
from benchmarks.bench import Bench
from benchmarks.cluster import pause, until
from benchmarks.contenders.lrq_source import LrqSource
from benchmarks.contenders.tables import SOURCE
from queues.clock import SYSTEM_CLOCK

NAME: Final = "sizes"
_MIB: Final = 1024**2
_QUICK_TRIM: Final = {"segment_seconds": 2.0, "trim_seconds": 0.5}
#: How often dead rows are counted, in seconds.
_LOOK: Final = 2.0
#: Rows that at most the holder of the snapshot can see, counted where the server can do that.
_DEAD: Final = text(
    "SELECT sum((pgstattuple(oid)).dead_tuple_count) FROM pg_class WHERE relname LIKE 'lrq\\_%' AND relkind = 'r'"
)
#: The server's own estimate: it may be late by half a minute.
_DEAD_ABOUT: Final = text("SELECT sum(n_dead_tup) FROM pg_stat_user_tables WHERE relname LIKE 'lrq\\_%'")
_CAN_COUNT: Final = text("SELECT count(*) FROM pg_available_extensions WHERE name = 'pgstattuple'")
_RATE: Final = 50


def measure(bench: Bench) -> None:
    """Compare what few and many entries leave behind."""
    for _, entries in bench.rounds(bench.pick((2_000, 10_000), (10_000, 100_000), (10_000, 1_000_000))):
        setting = f"{entries:,} entries"
        bench.say(f"{OURS}: {setting}")
        with bench.tried(f"{NAME}, {setting}"), LrqSource(bench.place, 1, **_QUICK_TRIM) as source:
            for _ in range(0, entries, 10):
                source.transaction()
            source.wait()
            bench.book.add(NAME, setting, OURS, **{"tables MiB": _idle(source) / _MIB})
    for _ in range(bench.runs):
        bench.say(f"{OURS}: snapshot held")
        _held(bench, bench.pick(5.0, 75.0, 150.0))


def _idle(source: LrqSource) -> int:
    """Wait until nothing shrinks any more; return the size."""
    sizes: list[int] = []

    def is_still() -> bool:
        sizes.append(source.bytes())
        return len(sizes) > 8 and len(set(sizes[-6:])) == 1

    until(is_still, 120, 1.0)
    return sizes[-1]


def _held(bench: Bench, seconds: float) -> None:
    """Hold a snapshot twice *seconds*; count the dead rows, at most, in the first half and in all of it."""
    with bench.tried(f"{NAME}, snapshot held"), LrqSource(bench.place, 1) as source:
        source.transaction()
        source.wait()
        counting = _DEAD_ABOUT
        if source.ask(_CAN_COUNT):
            bench.place.cluster.execute(SOURCE, "CREATE EXTENSION pgstattuple")
            counting = _DEAD
        with bench.place.cluster.connect(SOURCE) as holder:
            holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            # Of no table of lrq: that would be a lock on it, which trimming leaves alone.
            holder.execute("SELECT pg_current_snapshot()")
            most = 0
            for part in ("half the", "whole"):
                most = max(most, *_dead_rows(source, counting, seconds))
                bench.book.add(NAME, f"{part} time, snapshot held", OURS, **{"dead rows": most})
            holder.execute("ROLLBACK")


def _dead_rows(source: LrqSource, counting: TextClause, seconds: float) -> list[int]:
    """Write for so long; return how many there were at each look."""
    begin = SYSTEM_CLOCK.monotonic()
    found = []
    for number in range(int(seconds * _RATE)):
        pause(begin + number / _RATE - SYSTEM_CLOCK.monotonic())
        source.transaction()
        if number % (_LOOK * _RATE) == 0:
            found.append(source.ask(counting))
    source.wait()
    return found
