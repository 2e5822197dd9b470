"""The command line of the benchmarks."""

import os
import platform
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from benchmarks import profile as profiles
from benchmarks.bars import verdicts
from benchmarks.bench import Bench, Size
from benchmarks.book import Book
from benchmarks.cluster import Cluster
from benchmarks.contender import Place
from benchmarks.experiments import (
    application,
    applied,
    backlog,
    deliveries,
    growth,
    idle,
    ingest,
    latency,
    ring,
    servers,
    sizes,
    sqlite,
    stored,
    subscriber,
    transport,
)
from benchmarks.issue_bars import BARS
from benchmarks.kept import kept, with_kept
from benchmarks.plot import plot
from benchmarks.report import BAR_HEADS, NUMBER_HEADS, Run, bar_rows, number_rows, table
from benchmarks.servers import binaries
from queues.clock import iso, now_us

_MODULES: Final = (
    application, deliveries, applied, latency, growth, backlog, sizes, stored, sqlite, idle, subscriber, ingest,
    servers, transport, ring,
)  # fmt: skip
EXPERIMENTS: Final[dict[str, Callable[[Bench], None]]] = {module.NAME: module.measure for module in _MODULES}
_RUNS: Final = {"quick": 1, "normal": 5, "full": 5}

console = Console(stderr=True)


def bench(
    only: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(EXPERIMENTS)}; may be repeated.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes and one run each; takes some minutes.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The largest sizes, up to a million entries.")] = False,
    runs: Annotated[
        int | None, typer.Option(min=1, help="Runs of each experiment; the report shows the median.")
    ] = None,
    server: Annotated[
        str, typer.Option(help="PostgreSQL: auto, debian, wheel, or the folder of its programs.")
    ] = "auto",
    out: Annotated[Path, typer.Option(help="Folder of the report; --only keeps its other experiments.")] = Path("docs"),
    profile: Annotated[
        str | None, typer.Option(help=f"Only print CPU by stage: {', '.join(profiles.PROFILES)}.")
    ] = None,
    folder: Annotated[str | None, typer.Option(help="Folder of the databases, on the disk to measure.")] = None,
) -> None:
    """Measure lrq beside its alternatives, in one run on one server."""
    chosen = list(dict.fromkeys(only or EXPERIMENTS))
    unknown = [name for name in chosen if name not in EXPERIMENTS]
    if unknown:
        raise typer.BadParameter(f"no experiment {unknown[0]!r}; there are {', '.join(EXPERIMENTS)}")
    if profile is not None and profile not in profiles.PROFILES:
        raise typer.BadParameter(f"no profile {profile!r}; there are {', '.join(profiles.PROFILES)}")
    size: Size = "quick" if quick else "full" if full else "normal"
    if profile is not None:
        _show_profile(size, runs or 1, binaries(server), folder)
        return
    run = _run(chosen, size, runs or _RUNS[size], binaries(server), folder)
    if only:
        run = with_kept(run, kept(out, chosen), list(EXPERIMENTS))
    run.save(out, plot(run.book))
    _show(run)
    console.print(f"written: {out}/benchmarks.md, .json and .svg")


@contextmanager
def _made(size: Size, runs: int, programs: Path, folder: str | None) -> Iterator[Bench]:
    """Give the context of a run, on a new PostgreSQL that ends with the block."""
    cluster = Cluster(programs, folder)
    try:
        with tempfile.TemporaryDirectory(prefix="lrq-bench-", dir=folder) as files:
            yield Bench(Place(cluster, Path(files)), Book(), runs, size, say)
    finally:
        cluster.stop()


def _show_profile(size: Size, runs: int, programs: Path, folder: str | None) -> None:
    with _made(size, runs, programs, folder) as made:
        lines = table(profiles.HEADS, profiles.measure(made))
    for line in [*lines, *(f"missing: {what}: {why}" for what, why in made.book.missing.items())]:
        typer.echo(line)


def _run(chosen: list[str], size: Size, runs: int, programs: Path, folder: str | None) -> Run:
    load = os.getloadavg()[0]
    with _made(size, runs, programs, folder) as made:
        for name in chosen:
            with made.tried(name):
                EXPERIMENTS[name](made)
    book = made.book
    facts = {
        "when": iso(now_us()),
        "size": size,
        "runs": runs,
        "PostgreSQL": f"{made.place.cluster.version}, fsync=on, synchronous_commit=on, one server for all",
        "Python": platform.python_version(),
        "processors": os.cpu_count(),
        "load before": f"{load:.1f}: numbers of a machine that has other work to do say little",
        "payload": "1 KiB, ten entries a transaction",
    }
    return Run(facts, book, list(verdicts(book, BARS, set(chosen))))


def say(words: str) -> None:
    """Print the progress of the run."""
    console.print(words, style="dim", highlight=False)


def _show(run: Run) -> None:
    lines = [*table(NUMBER_HEADS, number_rows(run.book)), "", *table(BAR_HEADS, bar_rows(run.verdicts))]
    lines += [f"missing: {what}: {why}" for what, why in run.book.missing.items()]
    for line in lines:
        typer.echo(line)


def main() -> None:
    """Run the command; SIGTERM ends it like Ctrl-C, so that no server keeps running."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    typer.run(bench)


if __name__ == "__main__":
    main()
