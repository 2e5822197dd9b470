"""The CPU cost of an idle server."""

from typing import Final

from benchmarks import cpu
from benchmarks.bars import OURS
from benchmarks.bench import Bench
from benchmarks.cluster import pause
from benchmarks.contenders.lrq_source import LrqSource
from queues.clock import SYSTEM_CLOCK

NAME: Final = "idle"
_SESSIONS: Final = 100


def measure(bench: Bench) -> None:
    """Measure an idle server with 100 sessions."""
    seconds = bench.pick(8.0, 30.0)
    with LrqSource(bench.place, _SESSIONS) as source:
        source.transaction()
        source.wait()
        for _ in range(bench.runs):
            pause(3.0)
            before, began = cpu.used(source.server.pid), SYSTEM_CLOCK.monotonic()
            pause(seconds)
            used, took = cpu.used(source.server.pid) - before, SYSTEM_CLOCK.monotonic() - began
            bench.book.add(NAME, "100 sessions", OURS, **{"CPU of a core": used / took})
            bench.book.add(NAME, "100 sessions", "one percent", **{"CPU of a core": 0.01})
