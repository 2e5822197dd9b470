"""The receive queues that an entry blocks, as a table, one by one, and as JSON."""

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from lrq.cli.output import add, table
from lrq.cli.views.parked import at, failure_lines, moment, trace_view
from lrq.cli.words import NONE, duration, number, one_line
from queues.clock import now_us
from queues.receive.blocked import BlockedQueue


def blocked_view(found: Sequence[BlockedQueue]) -> RenderableType:
    """Show the queues whose next entry the listener refuses, and the command that parks that entry."""
    made = table(
        "Blocked", "client", "from", ("shard", "right"), ("sequence", "right"), ("since", "right"), ("tries", "right"),
        ("error", "fold"),
    )  # fmt: skip
    for each in found:
        failure = each.failure
        since = duration(max(now_us() - failure.first_us, 0) / 1_000_000) if failure.first_us else NONE
        error = Text(one_line(failure.error) + at(failure.place), style="red")
        shard = NONE if each.shard is None else number(each.shard)
        cells: list[str | Text] = [
            each.queue.client,
            each.queue.source,
            shard,
            number(failure.seq),
            since,
            number(failure.tries),
            error,
        ]
        add(made, cells)
    return Group(made, Text("lrq park blocked CLIENT SOURCE   lrq park now CLIENT SOURCE", style="dim"))


def blocked_one_view(found: BlockedQueue) -> RenderableType:
    """Show one queue with the traceback of its failure."""
    times = failure_lines(found.failure.first_us, found.failure.last_us)
    return Group(blocked_view([found]), *times, *trace_view(found.failure.trace))


def blocked_facts(each: BlockedQueue) -> dict[str, Any]:
    """Return an item of `blocked` in `lrq park list --json`."""
    failure = each.failure
    return {
        "client": each.queue.client,
        "source": each.queue.source,
        "shard": each.shard,
        "sequence": failure.seq,
        "tries": failure.tries,
        "error": failure.error,
        "error_class": failure.error_class,
        "place": failure.place,
        "first_failed_at": moment(failure.first_us),
        "last_failed_at": moment(failure.last_us),
    }
