"""List the destination sets in the send log without reading its entries."""

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, Table, func, select

from queues.destinations import members
from queues.send_log.destination_sets import StoredSet, recorded


def sets_in_use(connection: Connection, tables: Sequence[Table], limit: int) -> list[StoredSet] | None:
    """Return the sets of all entries in *tables*; None if there are more than *limit*."""
    carriers: dict[int, Table] = {}
    for table in tables:
        for number in _numbers(connection, table, limit + 1):
            carriers.setdefault(number, table)
        if len(carriers) > limit:
            return None
    known = recorded(connection, carriers)
    inline = (_inline(connection, table, number) for number, table in carriers.items() if number not in known)
    return [*known.values(), *(found for found in inline if found is not None)]


def _numbers(connection: Connection, table: Table, limit: int) -> Iterable[int]:
    """Return the distinct sets with one index look-up for each; the table may be huge, but has few sets."""
    column = table.c.tag_set
    found = select(func.min(column).label("number")).cte("found", recursive=True)
    following = select(func.min(column)).where(column > found.c.number).scalar_subquery()
    found = found.union_all(select(following).where(found.c.number.is_not(None)))
    return connection.execute(select(found.c.number).where(found.c.number.is_not(None)).limit(limit)).scalars().all()


def _inline(connection: Connection, table: Table, number: int) -> StoredSet | None:
    carrying = select(table.c.client, table.c.destinations).where(
        table.c.tag_set == number, table.c.destinations.is_not(None)
    )
    row = connection.execute(carrying.limit(1)).first()
    return None if row is None else StoredSet(number, row.client, members(row.destinations))
