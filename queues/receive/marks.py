"""The receive state of one session, kept by the sink with every receive queue. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from queues.checksum import combine, rows_checksum
from queues.positions import ORIGIN, Position

#: The `ended_seq` of a stream that has not ended.
NOT_ENDED: Final = -1
#: A log entry in a receive queue counts as its share of its unpacked block, and this number of bytes.
ENTRY_BYTES: Final = 64


def stored_size(plain_size: int, rows: int) -> int:
    """Return the bytes that a block of *rows* log entries counts in a receive queue; unpacked it has *plain_size*."""
    return plain_size + ENTRY_BYTES * rows


@dataclass(frozen=True, slots=True)
class StagedRows:
    """The staged part of a snapshot; an empty `sync_id` means no snapshot.

    `bytes` counts payload bytes; `checksum` covers all staged rows (`queues.checksum`).
    """

    sync_id: str = ""
    rows: int = 0
    bytes: int = 0
    checksum: int = 0


def with_rows(staging: StagedRows, payloads: Sequence[bytes], item_keys: Sequence[str | None]) -> StagedRows:
    """Return *staging* with further rows."""
    return StagedRows(
        staging.sync_id,
        staging.rows + len(payloads),
        staging.bytes + sum(map(len, payloads)),
        combine(staging.checksum, rows_checksum(zip(payloads, item_keys, strict=True))),
    )


@dataclass(frozen=True, slots=True)
class ReceiveState:
    """The durable state of a receive queue.

    Invariant: `boundary_seq <= received.seq`. If they differ, a tick is open: it arrives in parts and began at
    `boundary_seq`. Of this tick, `received.seq - boundary_seq` rows have arrived. `bytes_total` is the `stored_size` of
    all blocks of the log that have arrived. See `has_ended` for `ended_seq`.
    """

    generation: int = 0
    received: Position = ORIGIN
    boundary_seq: int = 0
    staging: StagedRows = StagedRows()
    sync_id: str = ""
    sync_rows: int = 0
    base_seq: int = 0
    entries_total: int = 0
    duplicates_total: int = 0
    source_seq: int = 0
    source_us: int = 0
    bytes_total: int = 0
    ended_seq: int = NOT_ENDED

    @property
    def has_ended(self) -> bool:
        """Whether the stream has ended at `received`; entries of a link that begins again end this state."""
        return self.ended_seq == self.received.seq == self.boundary_seq
