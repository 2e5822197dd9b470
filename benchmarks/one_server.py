"""One measurement of one server of a site, printed as JSON; the libraries are those of the caller's PYTHONPATH.

`revisions` runs this file with the packages of two revisions, so the file uses only names of both.
"""

import json
import sys
import tempfile
from pathlib import Path

from benchmarks import cpu
from benchmarks.cluster import Cluster, pause
from benchmarks.contender import Place
from benchmarks.contenders.lrq_sites import Lrq, LrqOnPostgreSQL, LrqOnSQLite
from benchmarks.contenders.lrq_source import LrqSource
from benchmarks.stream import Stream
from benchmarks.workload import Workload
from queues.clock import SYSTEM_CLOCK

_SESSIONS = 8
_WARM_UP = 500


def idle(place: Place, seconds: float) -> dict[str, float]:
    """Return the CPU of an idle server with eight sessions, in milliseconds a second."""
    with LrqSource(place, _SESSIONS) as source:
        source.transaction()
        source.wait()
        pause(3.0)
        before, began = cpu.used(source.server.pid), SYSTEM_CLOCK.monotonic()
        pause(seconds)
        used, took = cpu.used(source.server.pid) - before, SYSTEM_CLOCK.monotonic() - began
    return {"idle, CPU ms a second": used / took * 1_000}


def deliveries(place: Place, lrq: Lrq, entries: int) -> dict[str, float]:
    """Return the rate to one destination, and the CPU of a delivery in both servers, in microseconds."""
    try:
        lrq.prepare(place, 1)
        stream = Stream(lrq, Workload(entries))
        stream.write(_WARM_UP)
        stream.wait()
        before, began = sum(map(cpu.used, lrq.servers)), SYSTEM_CLOCK.monotonic()
        stream.write(entries)
        stream.wait()
        took, used = SYSTEM_CLOCK.monotonic() - began, sum(map(cpu.used, lrq.servers)) - before
        stream.check()
    finally:
        lrq.close()
    return {f"{lrq.name}, deliveries/s": entries / took, f"{lrq.name}, CPU µs a delivery": used / entries * 1e6}


def main() -> None:
    """Measure on a new PostgreSQL; the arguments are its programs' folder, the seconds of rest and the entries."""
    programs, seconds, entries = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    cluster = Cluster(programs, None)
    try:
        with tempfile.TemporaryDirectory(prefix="lrq-bench-") as files:
            place = Place(cluster, Path(files))
            found = idle(place, seconds)
            for lrq in (LrqOnPostgreSQL(), LrqOnSQLite()):
                found |= deliveries(place, lrq, entries)
    finally:
        cluster.stop()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
