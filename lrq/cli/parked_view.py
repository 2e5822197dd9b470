"""Parked transactions as a table, and as JSON."""

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from lrq.cli.output import add, table
from lrq.cli.words import duration, number, one_line, size
from queues.clock import iso, now_us
from queues.receive.parked import ParkedTransaction


def parked_view(found: Sequence[ParkedTransaction]) -> RenderableType:
    """Show parked transactions, and the commands that retry or discard them."""
    if not found:
        return Text("nothing is parked")
    made = table(
        "Parked", ("id", "right"), "client", "from", "kind", ("sequence", "right"), ("entries", "right"),
        ("bytes", "right"), ("parked", "right"), ("tries", "right"), ("error", "fold"),
    )  # fmt: skip
    for each in found:
        age = duration(max(now_us() - each.parked_us, 0) / 1_000_000)
        tries = Text("retry planned", style="yellow") if each.retrying else Text(number(each.tries))
        error = Text(one_line(each.error), style="red")
        add(
            made,
            [
                str(each.id),
                each.client,
                each.source,
                each.kind,
                number(each.sequence),
                number(each.entries),
                size(each.bytes),
                age,
                tries,
                error,
            ],
        )
    return Group(made, Text("lrq park retry ID …   lrq park discard ID …", style="dim"))


def parked_facts(each: ParkedTransaction) -> dict[str, Any]:
    """Return an item of `parked` in `lrq park list --json`."""
    return {
        "id": each.id,
        "client": each.client,
        "source": each.source,
        "kind": each.kind,
        "history": each.history,
        "sequence": each.sequence,
        "entries": each.entries,
        "bytes": each.bytes,
        "error": each.error,
        "tries": each.tries,
        "retrying": each.retrying,
        "parked_at": iso(each.parked_us),
    }
