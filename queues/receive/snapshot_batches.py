"""Read the next batch of a snapshot that is being applied, as columns, within limits of rows and bytes."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import overload

from sqlalchemy import Connection

from queues.receive import snapshot_blocks
from queues.receive.batches import BatchLimits, Fetched
from queues.receive.consumer_marks import Consumed
from queues.receive.received_rows import ReceivedRow


class SnapshotRowColumns(Sequence[ReceivedRow]):
    """Consecutive rows of a snapshot, kept as two columns of equal length; each access makes a `ReceivedRow`.

    `first` is the number of the first row, counted from 1.
    """

    __slots__ = ("first", "item_keys", "payloads")

    def __init__(self, first: int, payloads: Sequence[bytes], item_keys: Sequence[str | None]) -> None:
        self.first = first
        self.payloads = payloads
        self.item_keys = item_keys

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.payloads)

    def __iter__(self) -> Iterator[ReceivedRow]:
        """Yield every row."""
        for number, (payload, item_key) in enumerate(zip(self.payloads, self.item_keys, strict=True), self.first):
            yield ReceivedRow(number, number, 0, item_key, payload)

    @overload
    def __getitem__(self, place: int) -> ReceivedRow: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[ReceivedRow]: ...
    def __getitem__(self, place: int | slice) -> ReceivedRow | Sequence[ReceivedRow]:
        """Return one row, or a list of several."""
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
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
