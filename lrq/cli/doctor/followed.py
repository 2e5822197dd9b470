"""Check the followed tables: a row that a listener applies may travel back to its site."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from sqlalchemy import Engine

from lrq.cli.doctor.findings import Finding, ok, problem, warning
from lrq.cli.words import plural
from queues.database import dialects
from queues.database.followed_rows import FollowedTable
from queues.database.transactions import reading
from queues.receive.registry import ReceiveQueue, every_registered

_CHECK: Final = "followed tables"
_CURE: Final = "run `lrq follow` again with --origin other (PostgreSQL), or let the listener write other tables"


def look(engine: Engine) -> Iterator[Finding]:
    """Yield the findings about the followed tables of *engine*; none if there is no such table."""
    with reading(engine) as connection:
        tables = dialects.of(connection).followed_tables(connection)
        received = every_registered(connection) if tables else []
    if tables:
        yield from judge(tables, received)


def judge(tables: Collection[FollowedTable], received: Iterable[ReceiveQueue]) -> Iterator[Finding]:
    """Yield a finding for each table that has changed, or whose rows may travel back to a site; else one. Pure."""
    queues = list(received)
    changed = [table for table in tables if table.has_changed]
    for table in changed:
        yield problem(
            _CHECK,
            f"the columns of {table.table} have changed since client {table.client} follows it, "
            "so each change of a row fails",
            "run `lrq follow` again",
        )
    found = [(table, sources) for table in tables if (sources := _sources(table, queues))]
    for table, sources in found:
        yield warning(
            _CHECK,
            f"client {table.client} follows {table.table} and is received from {', '.join(sources)}, so rows that its "
            "listener writes to the table are sent back",
            _CURE,
        )
    if not found and not changed:
        yield ok(_CHECK, f"{plural(len({table.table for table in tables}), 'table is', 'tables are')} followed")


def _sources(table: FollowedTable, received: Iterable[ReceiveQueue]) -> list[str]:
    """Return the sites to which an applied row of *table* may go back."""
    if table.origin != "any":
        return []
    ours = {each.source for each in received if each.client == table.client}
    return sorted(ours.intersection(table.destinations) if table.destinations else ours)
