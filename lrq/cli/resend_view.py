"""Orders to send a range of entries again, as a table and as JSON."""

from collections.abc import Sequence
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from lrq.cli.output import add, table
from lrq.cli.words import duration, one_line
from queues.clock import iso
from queues.send_log.resends import ResendOrder, ResendState

_STYLES: Final = {ResendState.BEGUN: "cyan", ResendState.DONE: "green"}


def resends_table(found: Sequence[ResendOrder], at_us: int) -> Table:
    """Show orders, with their ages at *at_us*."""
    made = table("Resends", "client", "to", "begun", "by", "state", ("", "fold"))
    for each in found:
        age = duration(max(at_us - each.ordered_us, 0) / 1_000_000)
        state = Text.assemble(("● ", _STYLES.get(each.state, "dim")), each.state.value)
        add(made, [each.client, each.destination, age, one_line(each.person), state, each.words])
    return made


def resend_facts(order: ResendOrder) -> dict[str, Any]:
    """Return the order as JSON."""
    return {
        "client": order.client,
        "destination": order.destination,
        "from": order.from_seq,
        "to": order.to_seq,
        "done_to": order.sent_seq,
        "entries": order.entries,
        "left_out": order.left_out,
        "person": order.person,
        "begun_at": iso(order.ordered_us),
        "state": order.state.value,
        "ended_at": iso(order.ended_us) if order.ended_us else None,
    }
