"""The cost of more destinations at a source, when every entry goes to all: bytes, `transmit`, CPU of its server.

The sinks store nothing. `transmit` is measured while the server is stopped, so that only the application counts.
"""

from typing import Final

from benchmarks import cpu
from benchmarks.bars import OURS
from benchmarks.bench import Bench
from benchmarks.contenders.lrq_source import LrqSource
from queues.clock import SYSTEM_CLOCK

NAME: Final = "growth"
_DESTINATIONS: Final = (1, 64, 500)


def measure(bench: Bench) -> None:
    """Write the same entries to 1, 64 and 500 destinations."""
    for _, destinations in bench.rounds(_DESTINATIONS):
        setting = f"{destinations} destination{'s' if destinations > 1 else ''}"
        bench.say(f"{OURS}: {setting}")
        with bench.tried(f"{NAME}, {setting}"), LrqSource(bench.place, destinations) as source:
            bench.book.add(NAME, setting, OURS, **_server(bench, source))
            bench.book.add(NAME, setting, OURS, **_application(bench, source))


def _server(bench: Bench, source: LrqSource) -> dict[str, float]:
    for _ in range(20):
        source.transaction()
        source.wait()
    transactions = bench.pick(100, 1_000)
    before, bytes_before = cpu.used(source.server.pid), source.bytes()
    for _ in range(transactions):
        source.transaction()
    source.wait()
    entries = transactions * 10
    used, grown = cpu.used(source.server.pid) - before, source.bytes() - bytes_before
    return {"source CPU ms per entry": used * 1_000 / entries, "source bytes per entry": grown / entries}


def _application(bench: Bench, source: LrqSource) -> dict[str, float]:
    source.server.stop()
    bench.place.cluster.settle()
    seconds = bench.pick(0.5, 3.0)
    done, began = 0, SYSTEM_CLOCK.monotonic()
    while SYSTEM_CLOCK.monotonic() < began + seconds:
        source.transaction()
        done += 1
    return {"transactions/s": done / (SYSTEM_CLOCK.monotonic() - began)}
