"""Orders for replays as a table, and as JSON."""

from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from lrq.cli.output import add, table
from lrq.cli.words import duration, one_line
from queues.clock import iso, now_us
from queues.receive.replays import ReplayOrder


def replays_view(found: Sequence[ReplayOrder]) -> RenderableType:
    """Show the orders."""
    if not found:
        return Text("no replay was ordered here")
    made = table("Replays", "client", "from", "ordered", "by", "state", ("", "fold"))
    for each in found:
        age = duration(max(now_us() - each.ordered_us, 0) / 1_000_000)
        words = each.outcome or each.words
        add(made, [each.client, each.source, age, one_line(each.person), each.state.value, one_line(words)])
    return made


def replay_facts(each: ReplayOrder) -> dict[str, Any]:
    """Return the JSON of an order."""
    wish = each.wish
    return {
        "client": each.client, "source": each.source, "order": each.order_id,
        "from": wish.from_seq or None, "branch": wish.branch or None,
        "since": None if wish.from_seq else iso(wish.since_us), "undo": wish.undo,
        "person": each.person, "ordered_at": iso(each.ordered_us), "state": each.state.value,
        "outcome": each.outcome or None, "ended_at": iso(each.ended_us) if each.ended_us else None,
    }  # fmt: skip
