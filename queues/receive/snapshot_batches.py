"""Read the next batch of a snapshot that is being applied, as columns, within limits of rows and bytes."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, repeat
from typing import Any

from sqlalchemy import Connection

from queues.receive import snapshot_blocks
from queues.receive.batches import BatchLimits, Fetched
from queues.receive.consumer_marks import Consumed
from queues.receive.received_rows import ReceivedRow, RowColumns


class SnapshotRowColumns(RowColumns):
    """Consecutive rows of a snapshot, as two columns of equal length; `first` is the first number, counted from 1."""

    __slots__ = ("first", "item_keys", "payloads")

    def __init__(self, first: int, payloads: Sequence[bytes], item_keys: Sequence[str | None]) -> None:
        self.first = first
        self.payloads = payloads
        self.item_keys = item_keys

    def fields(self) -> Iterator[tuple[Any, ...]]:
        """See `RowColumns`."""
        numbers, none = range(self.first, self.first + len(self)), repeat(None)
        # The repeated values have no end.
        columns = numbers, numbers, repeat(0), self.item_keys, self.payloads, none, none
        return zip(*columns, strict=False)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.payloads)

    def _at(self, place: int) -> ReceivedRow:
        number = self.first + (place if place >= 0 else len(self) + place)
        return ReceivedRow(number, number, 0, self.item_keys[place], self.payloads[place])


def next_snapshot_rows(
    connection: Connection, queue_id: int, seen: Consumed, upto: int, limits: BatchLimits, *, one: bool = False
) -> Fetched:
    """Read rows of the snapshot being applied, up to row *upto*, like `next_entries`; each row is a transaction.

    If the first row is missing, the result is empty and ends at *upto*.
    """
    payloads: list[bytes] = []
    item_keys: list[str | None] = []
    rows_left, bytes_left = 1 if one else limits.entries, limits.bytes
    for columns in snapshot_blocks.columns(connection, queue_id, seen.sync_id, after=seen.row_no, upto=upto):
        sizes = list(accumulate(map(len, columns.payloads)))
        taken = min(bisect_right(sizes, bytes_left), rows_left)
        if not payloads:
            taken = max(taken, 1)
        payloads += columns.payloads[:taken]
        item_keys += columns.item_keys[:taken]
        rows_left -= taken
        if taken < len(sizes) or not rows_left:
            break
        bytes_left -= sizes[-1]
    end = seen.row_no + len(payloads) if payloads else upto
    return Fetched(SnapshotRowColumns(seen.row_no + 1, payloads, item_keys), end)
