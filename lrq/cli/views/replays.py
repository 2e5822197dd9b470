"""Orders for replays as a table."""

from collections.abc import Sequence
from typing import Final

from rich.table import Table
from rich.text import Text

from discovery.replay_status import ReplayStatus
from lrq.cli.output import add, table
from lrq.cli.words import duration, one_line
from queues.receive.replays import ReplayState

_STYLES: Final = {ReplayState.ORDERED: "cyan", ReplayState.BEGUN: "green", ReplayState.REFUSED: "bold red"}


def replays_table(found: Sequence[ReplayStatus], at_us: int) -> Table:
    """Show orders, with their ages at *at_us*."""
    made = table("Replays", "client", "from", "ordered", "by", "state", ("", "fold"))
    for each in found:
        age = duration(max(at_us - each.ordered_us, 0) / 1_000_000)
        state = Text.assemble(("● ", _STYLES.get(each.state, "dim")), each.state.value)
        add(made, [each.client, each.source, age, one_line(each.person), state, one_line(each.outcome or each.words)])
    return made
