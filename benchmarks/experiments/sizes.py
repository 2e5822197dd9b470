"""The size of a source after many entries have arrived, and the dead rows under a held snapshot.

For the size, the log's segments are closed after two seconds instead of a minute, to shorten the run. The sinks store
nothing: only the source is measured.
"""

from typing import Any, Final

from sqlalchemy import TextClause, text

from benchmarks.bars import OURS
from benchmarks.bench import Bench
from benchmarks.cluster import pause, until
from benchmarks.contenders.lrq_source import LrqSource
from benchmarks.contenders.tables import SOURCE
from queues.clock import SYSTEM_CLOCK

NAME: Final = "sizes"
_MIB: Final = 1024**2
_QUICK_TRIM: Final[dict[str, Any]] = {"segment_seconds": 2.0, "trim_seconds": 0.5}
#: The interval between counts of dead rows, in seconds.
_LOOK: Final = 2.0
#: The exact count of dead rows, for servers with `pgstattuple`.
_DEAD: Final = text(
    "SELECT sum((pgstattuple(oid)).dead_tuple_count) FROM pg_class WHERE relname LIKE 'lrq\\_%' AND relkind = 'r'"
)
#: The server's estimate of dead rows, up to half a minute late.
_DEAD_ABOUT: Final = text("SELECT sum(n_dead_tup) FROM pg_stat_user_tables WHERE relname LIKE 'lrq\\_%'")
_CAN_COUNT: Final = text("SELECT count(*) FROM pg_available_extensions WHERE name = 'pgstattuple'")
_RATE: Final = 50


def measure(bench: Bench) -> None:
    """Measure the size after few and many entries, then the dead rows."""
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
    """Wait until the size is stable; return it in bytes."""
    sizes: list[int] = []

    def is_still() -> bool:
        sizes.append(source.bytes())
        return len(sizes) > 8 and len(set(sizes[-6:])) == 1

    until(is_still, 120, 1.0)
    return sizes[-1]


def _held(bench: Bench, seconds: float) -> None:
    """Hold a snapshot for twice *seconds*; record the most dead rows in the first half and in total."""
    with bench.tried(f"{NAME}, snapshot held"), LrqSource(bench.place, 1) as source:
        source.transaction()
        source.wait()
        counting = _DEAD_ABOUT
        if source.ask(_CAN_COUNT):
            bench.place.cluster.execute(SOURCE, "CREATE EXTENSION pgstattuple")
            counting = _DEAD
        with bench.place.cluster.connect(SOURCE) as holder:
            holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            # The query reads no table of lrq: its lock would make the trimming skip that table.
            holder.execute("SELECT pg_current_snapshot()")
            most = 0
            for part in ("half the", "whole"):
                most = max(most, *_dead_rows(source, counting, seconds))
                bench.book.add(NAME, f"{part} time, snapshot held", OURS, **{"dead rows": most})
            holder.execute("ROLLBACK")


def _dead_rows(source: LrqSource, counting: TextClause, seconds: float) -> list[int]:
    """Write for *seconds*; return the number of dead rows at each count."""
    begin = SYSTEM_CLOCK.monotonic()
    found = []
    for number in range(int(seconds * _RATE)):
        pause(begin + number / _RATE - SYSTEM_CLOCK.monotonic())
        source.transaction()
        if number % (_LOOK * _RATE) == 0:
            found.append(source.ask(counting))
    source.wait()
    return found
