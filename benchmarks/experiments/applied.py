"""The rate at which entries take effect: each is in the application's own table at eight destinations.

The receive queue of lrq is not the application's table, so its listener writes each entry there.
"""

from typing import Final

from benchmarks import cpu
from benchmarks.bench import Bench
from benchmarks.issue_bars import ALL, CPU, RATE
from benchmarks.peers import appliers
from benchmarks.stream import Stream
from benchmarks.workload import Workload
from queues.clock import SYSTEM_CLOCK

NAME: Final = "applied"
_WARM_UP: Final = 1_000
_DESTINATIONS: Final = 8


def measure(bench: Bench) -> None:
    """Write with one client at full speed; the clock stops when the last destination has applied everything."""
    entries = bench.pick(4_000, 20_000, 100_000)
    for _, make in bench.rounds(appliers(bench)):
        contender = make()
        with bench.running(contender, _DESTINATIONS, f"{NAME}, {ALL}"):
            stream = Stream(contender, Workload(entries, _DESTINATIONS, _DESTINATIONS))
            stream.write(_WARM_UP)
            stream.wait()
            bench.place.cluster.settle()
            before, began = cpu.used(), SYSTEM_CLOCK.monotonic()
            stream.write(entries)
            stream.wait()
            took, used = SYSTEM_CLOCK.monotonic() - began, cpu.used() - before
            stream.check()
            deliveries = entries * _DESTINATIONS
            found = {RATE: deliveries / took, CPU: used / deliveries * 1_000}
            bench.book.add(NAME, ALL, contender.name, **found)
