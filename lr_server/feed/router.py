"""Select the rows of a tick for one session, and number them. Pure.

The same tick gives the same rows with the same numbers, live or in catch-up. A later row of the same item replaces an
earlier one. Of the remaining rows, row k (from 0) has the sequence number `start_seq + k + 1`.

See docs/design.md, "The tick", "Payload once" and "Replaced entries".
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from queues.blocks import EntryRow, encode_entries
from queues.names import SiteId
from queues.positions import Visibility
from queues.send_log.port import LogRow, SessionKey
from queues.wire.replication_pb2 import Block


def owed_sets(sets: Mapping[int, frozenset[SiteId]], destination: SiteId) -> frozenset[int]:
    """Return the numbers of those *sets* that contain *destination*."""
    return frozenset(number for number, destinations in sets.items() if destination in destinations)


def owed_rows(rows: Sequence[LogRow], owed: SessionKey, numbers: Collection[int]) -> list[LogRow]:
    """Return the rows of the client whose destination set is one of *numbers*."""
    return [row for row in rows if row.tag_set in numbers and row.client == owed.client]


def after_cut(rows: Sequence[LogRow], cut: Visibility) -> list[LogRow]:
    """Return the rows that a snapshot with this *cut* does not contain."""
    return [row for row in rows if not row.is_in(cut)]


class RoutedRows(NamedTuple):
    """The encoded rows of one tick for a session (None: no rows); `replaced` more rows are left out.

    `since_us` is the time of the first row, in microseconds since 1970.
    """

    block: Block | None
    replaced: int = 0
    since_us: int = 0


def encoded(rows: Sequence[LogRow]) -> RoutedRows:
    """Encode the rows of one whole tick."""
    if not rows:
        return RoutedRows(None)
    entries = entry_rows(rows)
    return RoutedRows(encode_entries(entries), len(rows) - len(entries), rows[0].committed_us)


def packed_row(row: LogRow, transaction_index: int) -> EntryRow:
    """Return the fields of *row* that are sent; the index is that of `EntryRow`."""
    return EntryRow(row.payload, transaction_index, row.committed_us, row.item_key, row.headers, row.partition_key)


def entry_rows(rows: Sequence[LogRow]) -> list[EntryRow]:
    """Number the rows of one whole tick; keep the last row of an item, and note where each transaction begins.

    Transactions are joined from a replaced row up to the row that replaces it. Without the join, a listener's call
    could end after a transaction without its replaced row. The source never had such a state.
    """
    last = {row.item_key: place for place, row in enumerate(rows) if row.item_key is not None}
    entries: list[EntryRow] = []
    first, joined_upto, current = 0, -1, None
    for place, row in enumerate(rows):
        transaction = row.transaction, row.request
        if transaction != current and place > joined_upto:
            first = len(entries)
        current = transaction
        replaced_by = place if row.item_key is None else last[row.item_key]
        joined_upto = max(joined_upto, replaced_by)
        if replaced_by == place:
            entries.append(packed_row(row, first))
    return entries
