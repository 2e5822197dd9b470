"""The cost of a console for three sites under load: `python -m benchmarks.console_cost`.

A source writes to two sites at a steady rate, and a subscriber at each applies everything. Windows without a console
and windows with one take turns, so both see the same load. A tab follows the stream of events, and loads the map
after each change, as in a browser.

On a small machine any busy process makes its neighbours slower. So the CPU time of the sites may grow beside a console
that asks them nothing. After each console comes a window with a neighbour. The neighbour takes as much CPU time, and
asks no site. The sites' time beside the console, less that beside the neighbour of its round, is the cost. Many short
windows tell it best: the mean of the differences, with its standard error.
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
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, fields
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
#: The CPU seconds of one burst of a neighbour.
_BURST: Final = 0.01


@dataclass(frozen=True, slots=True)
class Cost:
    """The CPU of one window, as shares of a core.

    `sites`: all servers, subscribers and PostgreSQL. `queries`: of this, PostgreSQL's work for the console.
    `console`: the process of the console; on SQLite it reads the files itself. `browser`: the process with the tabs.
    """

    sites: float
    queries: float = 0.0
    console: float = 0.0
    browser: float = 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    """The medians of all windows of a kind.

    For a console, `above` is the mean of the sites' shares above those beside its neighbour. `error` is the standard
    error of this mean.
    """

    database: str
    beside: str
    sites: float
    queries: float
    console: float
    browser: float
    above: float | None = None
    error: float | None = None


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
def _process(work: Callable[..., None], *of: object) -> Iterator[int]:
    """Run *work* in a process of its own; yield its number."""
    workers = Workers()
    workers.start(work, *of)
    workers.wait_ready()
    try:
        yield workers.pids[0]
    finally:
        workers.stop()


def _burn(told: Told, share: float) -> None:
    """Take *share* of a core, in short bursts."""
    told.ready()
    threading.Thread(target=lambda: (told.over(None), os._exit(0)), daemon=True).start()
    while True:
        began, used = SYSTEM_CLOCK.monotonic(), time.thread_time()
        while time.thread_time() - used < _BURST:
            pass
        pause(began + _BURST / share - SYSTEM_CLOCK.monotonic())


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


def _window(
    place: Place, pids: Sequence[int], seconds: float, console: Console | None = None, browser: int | None = None
) -> Cost:
    """Measure one window; the servers and subscribers are *pids*."""
    reading = _backends(place.cluster) if console else []
    own = [console.pid] if console else []
    groups = [*pids, place.cluster.pid], reading, own, [browser] if browser else []
    began, before = SYSTEM_CLOCK.monotonic(), [sum(map(cpu.used, groups[0])), *map(_used, groups[1:])]
    pause(seconds)
    after, took = [sum(map(cpu.used, groups[0])), *map(_used, groups[1:])], SYSTEM_CLOCK.monotonic() - began
    return Cost(*((then - earlier) / took for then, earlier in zip(after, before, strict=True)))


def measure(place: Place, make: Callable[[], Lrq], chosen: argparse.Namespace) -> list[Measured]:
    """Measure the sites alone and with each number of tabs, in turns."""
    sites = make()
    found = defaultdict[str, list[Cost]](list)
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
            found["nothing"].append(_window(place, pids, chosen.seconds))
            for tabs in chosen.tabs:
                cost = _beside_console(place, pids, urls, tabs, chosen.seconds)
                found[_console(tabs)].append(cost)
                with _process(_burn, cost.console + cost.browser):
                    pause(_SETTLE)
                    found[_neighbour(tabs)].append(_window(place, pids, chosen.seconds))
        more = {_console(tabs): above(found[_console(tabs)], found[_neighbour(tabs)]) for tabs in chosen.tabs}
        return [Measured(sites.name, beside, *medians(costs), *more.get(beside, ())) for beside, costs in found.items()]


def _console(tabs: int) -> str:
    return f"a console, {tabs} tabs"


def _neighbour(tabs: int) -> str:
    return f"a neighbour as busy as {tabs} tabs"


def _beside_console(place: Place, pids: Sequence[int], urls: Sequence[str], tabs: int, seconds: float) -> Cost:
    console = Console(urls)
    try:
        with _process(_look, console.origin, tabs) as browser:
            pause(_SETTLE)
            return _window(place, pids, seconds, console, browser)
    finally:
        console.stop()


def medians(costs: Sequence[Cost]) -> list[float]:
    """Return the medians of `sites`, `queries`, `console` and `browser`."""
    names = [field.name for field in fields(Cost)]
    return [statistics.median(getattr(cost, name) for cost in costs) for name in names]


def above(costs: Sequence[Cost], neighbours: Sequence[Cost]) -> tuple[float, float | None]:
    """Return the mean of the sites' shares above those of the same round beside a neighbour, and its standard error.

    One round tells no error.
    """
    differences = [cost.sites - other.sites for cost, other in zip(costs, neighbours, strict=True)]
    if len(differences) < 2:
        return differences[0], None
    return statistics.fmean(differences), statistics.stdev(differences) / len(differences) ** 0.5


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
    sys.stdout.write(
        "| sites | beside | all sites | of it PostgreSQL for the console | the console | the browser "
        "| above a neighbour |\n"
    )
    sys.stdout.write("|---|---|---|---|---|---|---|\n")
    for each in found:
        shares = " | ".join(f"{100 * share:.2f}" for share in (each.sites, each.queries, each.console, each.browser))
        error = "" if each.error is None else f" ± {100 * each.error:.2f}"
        more = "" if each.above is None else f"{100 * each.above:.2f}{error}"
        sys.stdout.write(f"| {each.database} | {each.beside} | {shares} | {more} |\n")


if __name__ == "__main__":
    main()
