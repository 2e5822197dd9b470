"""Threads, memory and CPU of one source server with many sites: `python -m benchmarks.many_sites`.

The sinks stand in one other process, under as many names as there are sites. The sinks acknowledge and keep nothing.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import psutil

from benchmarks import cpu
from benchmarks.cluster import Cluster, pause
from benchmarks.contender import Place
from benchmarks.contenders.lrq_source import LrqSource
from benchmarks.servers import binaries
from queues.clock import SYSTEM_CLOCK

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Measured:
    """One source server: `begin_s` until all sessions work, `one_entry_s` until all sites have a new transaction.

    `cpu` is the share of a core that the idle server takes.
    `one_cpu` is the share beside 50 entries a second to one site.
    """

    sites: int
    begin_s: float
    one_entry_s: float
    threads: int
    mib: float
    cpu: float
    one_cpu: float


def measure(place: Place, sites: int, seconds: float, *, attached: bool) -> Measured:
    """Begin the sessions, deliver a few transactions to all, and look at the idle server."""
    began = SYSTEM_CLOCK.monotonic()
    with LrqSource(place, sites, begin_seconds=_LONGEST, attached=attached) as source:
        begin = SYSTEM_CLOCK.monotonic() - began
        for _ in range(3):
            written = SYSTEM_CLOCK.monotonic()
            source.transaction()
            source.wait()
            took = SYSTEM_CLOCK.monotonic() - written
        pause(5.0)
        process = psutil.Process(source.server.pid)
        used = _share(source, seconds, lambda: None)
        one = _share(source, seconds, lambda: source.entry(0))
        return Measured(sites, begin, took, process.num_threads(), cpu.memory(source.server.pid) / _MIB, used, one)


def _share(source: LrqSource, seconds: float, act: Callable[[], None]) -> float:
    """Call *act* again and again for some *seconds*; return the share of a core that the server takes meanwhile."""
    before, began, number = cpu.used(source.server.pid), SYSTEM_CLOCK.monotonic(), 0
    while (passed := SYSTEM_CLOCK.monotonic() - began) < seconds:
        act()
        number += 1
        pause(number * _EVERY - passed)
    return (cpu.used(source.server.pid) - before) / passed


#: The time between two entries to one site, in seconds.
_EVERY: Final = 0.02

#: The longest beginning of all sessions, in seconds.
_LONGEST: Final = 300.0


def main() -> None:
    """Measure one source server with 10, 100 and 1,000 sites."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_sites", description=main.__doc__)
    parser.add_argument("--sites", type=int, nargs="+", default=[10, 100, 1_000])
    parser.add_argument("--seconds", type=float, default=10.0, help="how long the idle server is watched")
    parser.add_argument("--attached", action="store_true", help="the sinks attach themselves to the source")
    parser.add_argument("--folder", help="folder of the database; by default the system's temporary folder")
    parser.add_argument("--json", action="store_true", help="print facts as JSON")
    chosen = parser.parse_args()
    cluster = Cluster(binaries("auto"), chosen.folder, wal_files=4)
    try:
        with tempfile.TemporaryDirectory(prefix="lrq-bench-") as files:
            found = [
                measure(Place(cluster, Path(files)), sites, chosen.seconds, attached=chosen.attached)
                for sites in chosen.sites
            ]
    finally:
        cluster.stop()
    if chosen.json:
        json.dump([asdict(each) for each in found], sys.stdout)
        return
    sys.stdout.write("| sites | until all work, s | a transaction at all, s | threads | MiB | CPU, idle | CPU, one |\n")
    sys.stdout.write("|---|---|---|---|---|---|---|\n")
    for each in found:
        row = f"{each.begin_s:.1f} | {each.one_entry_s:.2f} | {each.threads:,} | {each.mib:.0f} | {each.cpu:.3f}"
        sys.stdout.write(f"| {each.sites:,} | {row} | {each.one_cpu:.3f} |\n")


if __name__ == "__main__":
    main()
