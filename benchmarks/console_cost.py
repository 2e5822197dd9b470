"""The cost of a console for three sites under load: `python -m benchmarks.console_cost`.

A source writes to two sites at a steady rate, and a subscriber at each applies everything. Windows without a console
and windows with one take turns, so both see the same load. A tab follows the stream of events, and loads the map
after each change, as in a browser.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import httpx
import psutil

import queues
from benchmarks import cpu
from benchmarks.cluster import Cluster, pause
from benchmarks.contender import Place
from benchmarks.contenders.lrq_sites import CLIENT, Lrq, LrqOnPostgreSQL, LrqOnSQLite
from benchmarks.contenders.workers import Told, Workers
from benchmarks.servers import binaries
from benchmarks.workload import PER_TRANSACTION, Workload
from lr_client import listener, subscribe
from queues.clock import SYSTEM_CLOCK

#: Destinations of the source: three sites in all.
_SINKS: Final = 2
#: Seconds between the start of a console and its window.
_SETTLE: Final = 5.0


@dataclass(frozen=True, slots=True)
class Cost:
    """The CPU of one window, as shares of a core.

    `sites`: all servers, subscribers and PostgreSQL. `queries`: of this, PostgreSQL's work for the console.
    `console`: the process of the console; on SQLite it reads the files itself.
    """

    sites: float
    queries: float = 0.0
    console: float = 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    """The medians of all windows; `tabs` is 0 without a console."""

    database: str
    tabs: int
    sites: float
    queries: float
    console: float


def _follow(told: Told, url: str) -> None:
    """Apply everything, and change nothing."""

    @listener(CLIENT)
    def apply(session: object, source_id: str, entries: Sequence[object]) -> None:
        """Accept the entries."""

    with subscribe(queues.create_engine(url), apply):
        told.ready()
        told.over(None)


class Load:
    """Writes transactions at a steady rate in a thread, until `stop`."""

    def __init__(self, sites: Lrq, rate: float) -> None:
        """Begin at once with *rate* transactions a second, each of ten entries."""
        self._sites = sites
        self._rate = rate
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")
        self._thread.start()

    def _run(self) -> None:
        entries = Workload(100 * PER_TRANSACTION, _SINKS, _SINKS)
        transactions = list(entries.transactions())
        due, number = SYSTEM_CLOCK.monotonic(), 0
        while not self._stopping.is_set():
            self._sites.transaction(transactions[number % len(transactions)])
            due, number = due + 1 / self._rate, number + 1
            pause(due - SYSTEM_CLOCK.monotonic())

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._thread.join()


class Console:
    """A running `lrq console` of some databases."""

    def __init__(self, urls: Sequence[str]) -> None:
        """Start the process, and wait until its pages are served."""
        named = [part for url in urls for part in ("--database", url)]
        command = [sys.executable, "-m", "lrq", "console", *named, "--listen", "127.0.0.1:0"]
        self._running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._running.stdout
        line = self._running.stdout.readline()
        if "http://" not in line:
            raise RuntimeError(f"the console did not start: {line}")
        self.origin = line.split()[-1].rstrip("/")
        self.pid = self._running.pid

    def stop(self) -> None:
        """End the process."""
        self._running.send_signal(signal.SIGTERM)
        self._running.wait(30)


@contextmanager
def _tabs(origin: str, number: int) -> Iterator[None]:
    """Keep tabs of the console open, in a process of their own."""
    workers = Workers()
    workers.start(_look, origin, number)
    workers.wait_ready()
    try:
        yield
    finally:
        workers.stop()


def _look(told: Told, origin: str, number: int) -> None:
    told.ready()
    threading.Thread(target=lambda: (told.over(None), os._exit(0)), daemon=True).start()
    asyncio.run(_all_tabs(origin, number))


async def _all_tabs(origin: str, number: int) -> None:
    limits = httpx.Limits(max_connections=2 * number)
    async with httpx.AsyncClient(base_url=origin, limits=limits, timeout=60) as client:
        await asyncio.gather(*(_tab(client) for _ in range(number)))


async def _tab(client: httpx.AsyncClient) -> None:
    async with client.stream("GET", "/events") as stream:
        stream.raise_for_status()
        async for line in stream.aiter_lines():
            if line == "event: change":
                (await client.get("/")).raise_for_status()


def _backends(cluster: Cluster) -> list[int]:
    """Return the processes of PostgreSQL that serve the console."""
    rows = cluster.execute("postgres", "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'lrq%console'")
    return [int(pid) for (pid,) in rows]


def _used(pids: Sequence[int]) -> float:
    total = 0.0
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            times = psutil.Process(pid).cpu_times()
            total += times.user + times.system
    return total


def _window(place: Place, pids: Sequence[int], console: Console | None, seconds: float) -> Cost:
    """Measure one window; the servers and subscribers are *pids*."""
    reading = _backends(place.cluster) if console else []
    own = [console.pid] if console else []
    groups = [*pids, place.cluster.pid], reading, own
    began, before = SYSTEM_CLOCK.monotonic(), [sum(map(cpu.used, groups[0])), *map(_used, groups[1:])]
    pause(seconds)
    after, took = [sum(map(cpu.used, groups[0])), *map(_used, groups[1:])], SYSTEM_CLOCK.monotonic() - began
    return Cost(*((then - earlier) / took for then, earlier in zip(after, before, strict=True)))


def measure(place: Place, make: Callable[[], Lrq], chosen: argparse.Namespace) -> list[Measured]:
    """Measure the sites alone and with each number of tabs, in turns."""
    sites = make()
    found: dict[int, list[Cost]] = {0: [], **{tabs: [] for tabs in chosen.tabs}}
    with ExitStack() as stack:
        stack.callback(sites.close)
        sites.prepare(place, _SINKS)
        engines = sites.engines
        subscribers = Workers()
        stack.callback(subscribers.stop)
        urls = [engine.url.render_as_string(hide_password=False) for engine in engines]
        for engine, url in zip(engines, urls, strict=True):
            if engine is not sites.engine:
                subscribers.start(_follow, url)
        subscribers.wait_ready()
        load = Load(sites, chosen.rate)
        stack.callback(load.stop)
        pids = [*sites.servers, *subscribers.pids]
        for _ in range(chosen.rounds):
            pause(_SETTLE)
            found[0].append(_window(place, pids, None, chosen.seconds))
            for tabs in chosen.tabs:
                console = Console(urls)
                try:
                    with _tabs(console.origin, tabs):
                        pause(_SETTLE)
                        found[tabs].append(_window(place, pids, console, chosen.seconds))
                finally:
                    console.stop()
        return [Measured(sites.name, tabs, *medians(costs)) for tabs, costs in found.items()]


def medians(costs: Sequence[Cost]) -> list[float]:
    """Return the medians of `sites`, `queries` and `console`."""
    return [statistics.median(getattr(cost, name) for cost in costs) for name in ("sites", "queries", "console")]


def main() -> None:
    """Measure a console of three sites on PostgreSQL and on SQLite, with one tab and with 50."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console_cost", description=main.__doc__)
    parser.add_argument("--tabs", type=int, nargs="+", default=[1, 50])
    parser.add_argument("--rate", type=float, default=50.0, help="transactions of ten entries a second")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="the length of a window")
    parser.add_argument("--folder", help="folder of the databases; by default the system's temporary folder")
    parser.add_argument("--json", action="store_true", help="print facts as JSON")
    chosen = parser.parse_args()
    cluster = Cluster(binaries("auto"), chosen.folder, wal_files=4)
    try:
        with tempfile.TemporaryDirectory(prefix="lrq-bench-", dir=chosen.folder) as files:
            place = Place(cluster, Path(files))
            found = [row for make in (LrqOnPostgreSQL, LrqOnSQLite) for row in measure(place, make, chosen)]
    finally:
        cluster.stop()
    if chosen.json:
        json.dump([asdict(each) for each in found], sys.stdout)
        return
    sys.stdout.write("CPU in percent of a core:\n\n")
    sys.stdout.write("| sites | open tabs | all sites | of it PostgreSQL for the console | the console |\n")
    sys.stdout.write("|---|---|---|---|---|\n")
    for each in found:
        shares = " | ".join(f"{100 * share:.2f}" for share in (each.sites, each.queries, each.console))
        sys.stdout.write(f"| {each.database} | {each.tabs or 'no console'} | {shares} |\n")


if __name__ == "__main__":
    main()
