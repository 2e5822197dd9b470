"""Show the progress of snapshots: a live table on a terminal, lines in a pipe."""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from discovery.snapshot_reads import snapshot_status
from lrq.cli.output import add, console, table
from lrq.cli.snapshot_requests import Follow, FollowOutcome
from lrq.cli.views.status_tables import progress_words, snapshot_cells
from lrq.cli.words import one_line, plural, size
from queues.clock import now_us, poll
from queues.send_snapshot import SnapshotState, SnapshotSync
from queues.send_snapshot.progress import progress_of

_PAUSE: Final = 0.1


def show_until_done(follow: Follow, timeout: float, *, silent: bool) -> FollowOutcome:
    """Show snapshots until they are finished, for at most *timeout* seconds; return their last states."""
    if silent:
        return _until_done(follow, timeout, lambda _outcome: None)
    if not sys.stdout.isatty():
        return _until_done(follow, timeout, _Lines().show)
    with Live(auto_refresh=False, console=console()) as live:
        return _until_done(follow, timeout, lambda outcome: live.update(_view(outcome), refresh=True))


def _until_done(follow: Follow, timeout: float, show: Callable[[FollowOutcome], None]) -> FollowOutcome:
    def look() -> FollowOutcome:
        outcome = follow.look()
        show(outcome)
        return outcome

    outcome = poll(look, lambda outcome: outcome.finished, timeout=timeout, pause=_PAUSE)
    return outcome if outcome.finished else replace(outcome, timed_out=True)


class _Lines:
    """Prints one line for each change of state, and for each tenth of the rows built or sent."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}

    def show(self, outcome: FollowOutcome) -> None:
        for each in outcome.snapshots:
            progress = progress_of(each, now_us())
            tenths = int(progress.share * 10) if progress and progress.share else 0
            step = f"{_words(each)} {tenths}"
            if self._shown.get(each.sync_id) != step:
                self._shown[each.sync_id] = step
                so_far = f", {progress_words(snapshot_status(each))}" if tenths else ""
                typer.echo(f"{each.client} to {each.destination}: {_words(each)}{so_far}")


def _words(each: SnapshotSync) -> str:
    is_whole = each.finished or each.state is SnapshotState.READY
    amount = f" {plural(each.rows, 'row')}, {size(each.bytes)}" if is_whole else ""
    trouble = f" ({one_line(each.error)})" if each.error else ""
    return f"{each.state.value}{amount}{trouble}"


def _view(outcome: FollowOutcome) -> Table:
    made = table(
        "Snapshots", "client", "to", "state", ("rows", "right"), ("bytes", "right"), ("try", "right"),
        ("asked", "right"), ("", "fold"), ("session", "fold"),
    )  # fmt: skip
    at_us = now_us()
    for each in outcome.snapshots:
        session = outcome.sessions.get(each.destination, "no server has seen it yet")
        add(made, [*snapshot_cells(snapshot_status(each), at_us), Text(one_line(session), style="dim")])
    return made
