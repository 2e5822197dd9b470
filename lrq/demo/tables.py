"""Tables of the demonstration, for a terminal and for a pipe."""

from collections.abc import Iterator

from rich import box
from rich.console import JustifyMethod, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table

from lrq.demo.airports import SOURCE
from lrq.demo.report import StoryReport
from lrq.demo.views import SiteView, View


def live_table(view: View, seconds: float) -> Table:
    """Return the progress of every site after *seconds*, with a bar for each."""
    table = _table("site", "replication", "airports", "entries", "", "behind", "p50/p99", box=box.SIMPLE_HEAD)
    table.expand = True
    table.caption = f"{seconds:.0f} s"
    table.add_row(SOURCE, "writes", f"{view.airports:,}", f"{view.entries:,}")
    for name, site in view.sites.items():
        table.add_row(name, site.session, f"{site.airports:,}", *_progress(site), _speed(site))
    return table


def final_table(report: StoryReport, *, plain: bool) -> Table:
    """Return the deliveries to each site, and whether the site holds exactly the expected data."""
    columns = ("site", "airports", "snapshot", "log entries", "lag", "max lag", "p50/p99", "exact")
    table = _table(*columns, box=None if plain else box.SIMPLE_HEAD)
    for name, proof in report.proofs.items():
        site, made = report.view.sites[name], report.snapshots.get(name)
        verdict = "yes" if proof.ok else f"NO: {proof.in_words()}"
        table.add_row(
            name,
            f"{proof.owed:,}",
            f"{made.rows:,}" if made else "none",
            f"{site.delivered:,}",
            f"{site.behind:,}",
            f"{site.behind_most:,}",
            _speed(site),
            verdict if plain else f"[{'green' if proof.ok else 'red'}]{verdict}[/]",
        )
    return table


def _progress(site: SiteView) -> tuple[str, RenderableType, str]:
    if not site.applied:
        return "", ProgressBar(total=1, completed=0), ""
    bar = ProgressBar(total=site.owed, completed=site.applied)
    return f"{site.delivered:,}", bar, f"{site.behind:,}"


def _speed(site: SiteView) -> str:
    return f"{site.p50:.0f}/{site.p99:.0f} ms" if site.p50 else ""


def summary(report: StoryReport) -> Iterator[str]:
    """Yield the results that are not in the table, in sentences."""
    view = report.view
    saved = view.bytes_as_copies / view.bytes_stored if view.bytes_stored else 1.0
    yield (
        f"paris wrote {view.entries:,} entries in {view.committed:,} transactions; {view.rolled_back:,} others were "
        "rolled back, and left nothing"
    )
    yield (
        f"payloads: {_size(view.bytes_stored)} stored once; a copy for each site would have been "
        f"{_size(view.bytes_as_copies)} ({saved:.1f} times as much)"
    )
    yield f"the log delivered {view.delivered:,} entries; the snapshots were built by Spark {report.spark_version}"
    for site, seconds in report.seconds_down.items():
        resumed = site in report.snapshots and report.snapshots[site].count == 1
        after = "continued where it had stopped" if resumed else "was given another snapshot"
        yield f"{site} was killed, was away for {seconds:.1f} s, and {after}"
    if report.ok:
        yield f"every site holds exactly its data: all rows; each entry, once, in order ({report.seconds:.0f} s)"
    else:
        yield "not every site holds exactly its data"


def _table(*columns: str, box: box.Box | None) -> Table:
    table = Table(box=box, pad_edge=False)
    for column in columns:
        if column:
            justify: JustifyMethod = "left" if column in ("site", "replication") else "right"
            table.add_column(column, justify=justify, no_wrap=True)
        else:
            table.add_column(min_width=8, ratio=1)  # the bars take the remaining width
    return table


def _size(count: float) -> str:
    return f"{count / 1_000_000:.2f} MB"
