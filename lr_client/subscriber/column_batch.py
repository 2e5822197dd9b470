"""The bulk form of snapshot rows, for listeners that load them by COPY or `executemany`."""

from collections.abc import Sequence
from dataclasses import dataclass

from queues.receive.received_rows import ReceivedRow
from queues.receive.snapshot_batches import SnapshotRowColumns


@dataclass(frozen=True, slots=True)
class ColumnBatch:
    """Consecutive rows of one snapshot, as two columns of equal length; `len()` is the number of rows.

    `first_sequence` is the number of the first row in snapshot `sync_id`, counted from 1.
    """

    sync_id: str
    first_sequence: int
    payloads: Sequence[bytes]
    item_keys: Sequence[str | None]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.payloads)


def column_batch(sync_id: str, rows: Sequence[ReceivedRow]) -> ColumnBatch:
    """Return *rows*, at least one and in order, as columns."""
    if isinstance(rows, SnapshotRowColumns):
        return ColumnBatch(sync_id, rows.first, rows.payloads, rows.item_keys)
    return ColumnBatch(sync_id, rows[0].seq, [row.payload for row in rows], [row.item_key for row in rows])
