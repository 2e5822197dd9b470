"""The rate at which entries reach every destination, and its CPU cost."""

from collections.abc import Callable
from typing import Final

from benchmarks import cpu
from benchmarks.bench import Bench
from benchmarks.contender import Contender
from benchmarks.contenders.bare_copy import BareCopy
from benchmarks.contenders.bare_transfer import BareTransfer
from benchmarks.contenders.insert_alone import InsertAlone
from benchmarks.contenders.lrq_sites import Lrq
from benchmarks.issue_bars import ALL, CPU, ONE, RATE, THREE, WITHOUT_SERVERS
from benchmarks.peers import contenders, main_contenders
from benchmarks.stream import Stream
from benchmarks.workload import Workload
from queues.clock import SYSTEM_CLOCK

NAME: Final = "deliveries"
_WARM_UP: Final = 1_000
_SHAPES: Final = {ONE: (1, 1), ALL: (8, 8), THREE: (8, 3)}


def measure(bench: Bench) -> None:
    """Write with one client at full speed; the clock stops when the last destination has committed."""
    for setting, (destinations, each_to) in _SHAPES.items():
        entries = bench.pick(4_000, 20_000, 100_000)
        compared = contenders(bench) if setting == ALL else main_contenders(bench)
        for _, make in bench.rounds([*compared, BareTransfer, BareCopy, InsertAlone]):
            _once(bench, make, setting, Workload(entries, destinations, each_to))


def _once(bench: Bench, make: Callable[[], Contender], setting: str, workload: Workload) -> None:
    contender = make()
    entries = int(workload.entries * getattr(contender, "share", 1.0))
    with bench.running(contender, workload.destinations, setting):
        stream = Stream(contender, workload)
        stream.write(min(_WARM_UP, entries))
        stream.wait()
        bench.place.cluster.settle()
        servers = contender.servers if isinstance(contender, Lrq) else ()
        before, began = cpu.used(), SYSTEM_CLOCK.monotonic()
        servers_before = sum(map(cpu.used, servers))
        stream.write(entries)
        written = SYSTEM_CLOCK.monotonic() - began
        stream.wait()
        took, used = SYSTEM_CLOCK.monotonic() - began, cpu.used() - before
        by_servers = sum(map(cpu.used, servers)) - servers_before
        stream.check()
        deliveries = entries * workload.each_to
        found = {RATE: deliveries / took, CPU: used / deliveries * 1_000, "written/s": entries / written}
        bench.book.add(NAME, setting, contender.name, **found)
        if servers:
            rest = (used - by_servers) / deliveries * 1_000
            bench.book.add(NAME, setting, f"{contender.name}{WITHOUT_SERVERS}", **{CPU: rest})
