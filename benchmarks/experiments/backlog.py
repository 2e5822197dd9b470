"""How a server catches up with what was written while there was none."""

import threading
from typing import Final

from benchmarks import cpu
from benchmarks.bars import OURS
from benchmarks.bench import Bench
from benchmarks.cluster import until
from benchmarks.contenders.lrq_sites import LrqOnPostgreSQL
from benchmarks.stream import Stream
from benchmarks.workload import Workload
from queues.clock import SYSTEM_CLOCK

NAME: Final = "backlog"
_MIB: Final = 1024**2


class Scale:
    """Looks how much memory a process holds, and keeps the most."""

    def __init__(self, pid: int) -> None:
        """Begin to look."""
        self.most = 0
        self._over = threading.Event()
        self._pid = pid
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(0.05):
            self.most = max(self.most, cpu.memory(self._pid))

    def stop(self) -> int:
        """Return the most."""
        self._over.set()
        self._thread.join()
        return self.most


def measure(bench: Bench) -> None:
    """Stop the source's server, write, start it and watch."""
    sizes = bench.pick((5_000, 20_000), (10_000, 100_000), (10_000, 100_000, 1_000_000))
    for _, entries in bench.rounds(sizes):
        lrq = LrqOnPostgreSQL()
        with bench.running(lrq, 1, f"backlog of {entries:,}"):
            _once(bench, lrq, entries)


def _once(bench: Bench, lrq: LrqOnPostgreSQL, entries: int) -> None:
    stream = Stream(lrq, Workload(entries))
    stream.write(100)
    stream.wait()
    lrq.source.stop()
    stream.write(entries)
    bench.place.cluster.settle()
    lrq.restart()
    scale = Scale(lrq.source.pid)
    try:
        # Connecting is no part of the rate.
        first = 100 + entries // 10
        until(lambda: lrq.progress(0) >= first, 60, 0.002)
        behind, began = stream.written - lrq.progress(0), SYSTEM_CLOCK.monotonic()
        until(lambda: stream.is_there(0), 900, 0.002)
        took = SYSTEM_CLOCK.monotonic() - began
    finally:
        most = scale.stop()
    found = {"entries/s": behind / took if behind else 0.0, "server MiB": most / _MIB}
    bench.book.add(NAME, f"{entries:,} entries", OURS, **found)
