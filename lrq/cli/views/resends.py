"""Orders to send a range of entries again, as a table."""

from collections.abc import Sequence
from typing import Final

from rich.table import Table
from rich.text import Text

from discovery.resend_status import ResendStatus
from lrq.cli.output import add, table
from lrq.cli.words import duration, one_line
from queues.send_log.resends import ResendState

_STYLES: Final = {ResendState.BEGUN: "cyan", ResendState.DONE: "green"}


def resends_table(found: Sequence[ResendStatus], at_us: int) -> Table:
    """Show orders, with their ages at *at_us*."""
    made = table("Resends", "client", "to", "begun", "by", "state", ("", "fold"))
    for each in found:
        age = duration(max(at_us - each.begun_us, 0) / 1_000_000)
        state = Text.assemble(("● ", _STYLES.get(each.state, "dim")), each.state.value)
        add(made, [each.client, each.destination, age, one_line(each.person), state, each.words])
    return made
