"""Which rows of a tick one session is owed, and how they are numbered (DESIGN 2 and 3). Pure.

The same tick gives the same rows with the same numbers whenever it is routed, live or in catch-up: row k of it, counted
after rows that a later one of the same item replaces, has the sequence number `start_seq + k + 1`.
"""

from collections.abc import Collection, Mapping, Sequence

from queues.blocks import EntryRow
from queues.log.port import LogRow, Owed
from queues.names import SiteId
from queues.positions import Mark


def owed_sets(sets: Mapping[int, frozenset[SiteId]], destination: SiteId) -> frozenset[int]:
    """Return the numbers of those *sets* that contain *destination*."""
    return frozenset(number for number, destinations in sets.items() if destination in destinations)


def owed_rows(rows: Sequence[LogRow], owed: Owed, numbers: Collection[int]) -> list[LogRow]:
    """Return the rows whose set is one of *numbers* and that are of the client."""
    return [row for row in rows if row.tag_set in numbers and row.client == owed.client]


def after_cut(rows: Sequence[LogRow], cut: Mark) -> list[LogRow]:
    """Leave out what the snapshot that was cut there holds already."""
    return [row for row in rows if not cut.covers(row.transaction, row.order)]


def entry_rows(rows: Sequence[LogRow]) -> list[EntryRow]:
    """Number the rows of one whole tick: of an item only the last is kept, and transactions keep together."""
    kept = _last_of_each_item(rows)
    entries: list[EntryRow] = []
    first_of: dict[int, int] = {}
    for index, row in enumerate(kept):
        first = first_of.setdefault(row.transaction, index)
        entries.append(EntryRow(row.payload, first, row.committed_us, row.item_key))
    return entries


def _last_of_each_item(rows: Sequence[LogRow]) -> Sequence[LogRow]:
    last = {row.item_key: row.id for row in rows if row.item_key is not None}
    if not last:
        return rows
    return [row for row in rows if row.item_key is None or last[row.item_key] == row.id]
