"""The one counter of a site's generations, for the lease of the sequencer and for all ranges."""

from typing import Final

from sqlalchemy import Connection, case, func, insert, select, update

from queues.database.left_out import require_none
from queues.database.tables.servers import generations, leases, ranges

#: The lease whose owner takes ticks and trims: the sequencer of the site.
SITE_LEASE: Final = "server"

_LEASED = select(func.coalesce(func.max(leases.c.generation), 0)).where(leases.c.name == SITE_LEASE).scalar_subquery()
_LED = select(func.coalesce(func.max(ranges.c.generation), 0)).scalar_subquery()
_COUNTED = generations.c.generation
_STORED = case((_LEASED > _LED, _LEASED), else_=_LED)
_NEWEST = case((_STORED > _COUNTED, _STORED), else_=_COUNTED)


def pass_over(connection: Connection, generation: int) -> None:
    """Make every later generation of this site higher than *generation*, which another site has heard from it."""
    advance(connection)
    lower = generation > _COUNTED
    connection.execute(update(generations).where(lower).values(generation=generation))


def advance(connection: Connection, count: int = 1) -> int:
    """Take *count* generations in the caller's transaction; return the first. No generation is given twice.

    The row stays locked until the transaction ends, so acquisitions follow each other. Generations of an older lrq,
    which counts in the lease alone, are passed too.
    """
    moved = connection.execute(update(generations).values(generation=_NEWEST + count))
    if not moved.rowcount:
        require_none(connection, generations)
        connection.execute(insert(generations).values(one=1, generation=0, ranges=0))
        connection.execute(update(generations).values(generation=_NEWEST + count))
    return int(connection.execute(select(_COUNTED)).scalar_one()) - count + 1
