"""Select the rows of a tick for one session, and number them. Pure.

The same tick gives the same rows with the same numbers, live or in catch-up. A later row of the same item replaces an
earlier one. Of the remaining rows, row k (from 0) has the sequence number `start_seq + k + 1`.

See docs/design.md, "The tick" and "Payload once".
"""

from collections.abc import Collection, Mapping, Sequence

from queues.blocks import EntryRow
from queues.names import SiteId
from queues.positions import Visibility
from queues.send_log.port import LogRow, SessionKey


def owed_sets(sets: Mapping[int, frozenset[SiteId]], destination: SiteId) -> frozenset[int]:
    """Return the numbers of those *sets* that contain *destination*."""
    return frozenset(number for number, destinations in sets.items() if destination in destinations)


def owed_rows(rows: Sequence[LogRow], owed: SessionKey, numbers: Collection[int]) -> list[LogRow]:
    """Return the rows of the client whose destination set is one of *numbers*."""
    return [row for row in rows if row.tag_set in numbers and row.client == owed.client]


def after_cut(rows: Sequence[LogRow], cut: Visibility) -> list[LogRow]:
    """Return the rows that a snapshot with this *cut* does not contain."""
    return [row for row in rows if not cut.covers(row.transaction, row.order)]


def entry_rows(rows: Sequence[LogRow]) -> list[EntryRow]:
    """Number the rows of one whole tick; keep the last row of an item, and note where each transaction begins."""
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
