"""The speed and memory of a server that catches up with a backlog."""

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
    """Samples the memory of a process, and keeps the highest value in bytes."""

    def __init__(self, pid: int) -> None:
        """Start to sample."""
        self.most = 0
        self._over = threading.Event()
        self._pid = pid
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(0.05):
            self.most = max(self.most, cpu.memory(self._pid))

    def stop(self) -> int:
        """Stop to sample; return the highest value."""
        self._over.set()
        self._thread.join()
        return self.most


def measure(bench: Bench) -> None:
    """Stop the source's server, write a backlog, restart the server, and measure."""
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
        # The clock starts after the first tenth, so that connecting does not count.
        first = 100 + entries // 10
        until(lambda: lrq.progress(0) >= first, 60, 0.002)
        behind, began = stream.written - lrq.progress(0), SYSTEM_CLOCK.monotonic()
        until(lambda: stream.is_there(0), 900, 0.002)
        took = SYSTEM_CLOCK.monotonic() - began
    finally:
        most = scale.stop()
    found = {"entries/s": behind / took if behind else 0.0, "server MiB": most / _MIB}
    bench.book.add(NAME, f"{entries:,} entries", OURS, **found)
