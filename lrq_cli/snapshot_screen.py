"""What one sees of snapshots that are waited for: a table that changes on a terminal, lines in a pipe."""

import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lr_server.status import snapshot_facts
from lrq_cli.following import Follow, Outcome
from lrq_cli.output import add, console, table
from lrq_cli.status_tables import progress_words, snapshot_cells
from lrq_cli.words import one_line, plural, size
from queues.clock import SYSTEM_CLOCK, iso, now_us
from queues.snapshots import Snapshot
from queues.snapshots.progress import progress_of

_PAUSE: Final = 0.1


def show_until_done(follow: Follow, timeout: float, *, silent: bool) -> Outcome:
    """Show how snapshots get on until they are finished, at most *timeout* seconds; return how they ended."""
    if silent:
        return _until_done(follow, timeout, lambda _outcome: None)
    if not sys.stdout.isatty():
        return _until_done(follow, timeout, _Lines().show)
    with Live(auto_refresh=False, console=console()) as live:
        return _until_done(follow, timeout, lambda outcome: live.update(_view(outcome), refresh=True))


def _until_done(follow: Follow, timeout: float, show: Callable[[Outcome], None]) -> Outcome:
    deadline = SYSTEM_CLOCK.monotonic() + timeout
    never = threading.Event()
    while True:
        outcome = follow.look()
        show(outcome)
        if outcome.finished:
            return outcome
        if SYSTEM_CLOCK.monotonic() >= deadline:
            return replace(outcome, timed_out=True)
        SYSTEM_CLOCK.wait(never, _PAUSE)


class _Lines:
    """One line for every change of state, and for each tenth of what is built or sent."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}

    def show(self, outcome: Outcome) -> None:
        for each in outcome.snapshots:
            progress = progress_of(each, now_us())
            tenths = int(progress.share * 10) if progress and progress.share else 0
            step = f"{_words(each)} {tenths}"
            if self._shown.get(each.sync_id) != step:
                self._shown[each.sync_id] = step
                so_far = f", {progress_words(snapshot_facts(each))}" if tenths else ""
                typer.echo(f"{each.client} to {each.destination}: {_words(each)}{so_far}")


def _words(each: Snapshot) -> str:
    amount = f" {plural(each.rows, 'row')}, {size(each.bytes)}" if each.finished or each.state == "ready" else ""
    trouble = f" ({one_line(each.error)})" if each.error else ""
    return f"{each.state.value}{amount}{trouble}"


def _view(outcome: Outcome) -> Table:
    made = table(
        "Snapshots", "client", "to", "state", ("rows", "right"), ("bytes", "right"), ("try", "right"),
        ("asked", "right"), ("", "fold"), ("session", "fold"),
    )  # fmt: skip
    at = iso(now_us())
    for each in outcome.snapshots:
        session = outcome.sessions.get(each.destination, "no server has seen it yet")
        add(made, [*snapshot_cells(snapshot_facts(each), at), Text(one_line(session), style="dim")])
    return made
