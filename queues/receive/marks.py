"""What a sink has of one session: the marks that its writer keeps with every receive queue. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from queues.checksum import combine, rows_checksum
from queues.positions import ORIGIN, Position


@dataclass(frozen=True, slots=True)
class Staging:
    """How much of a snapshot has been staged; no snapshot where `sync_id` is empty.

    `bytes` counts payload bytes, `checksum` is that of all staged rows (`queues.checksum`).
    """

    sync_id: str = ""
    rows: int = 0
    bytes: int = 0
    checksum: int = 0


def with_rows(staging: Staging, payloads: Sequence[bytes], item_keys: Sequence[str | None]) -> Staging:
    """Return *staging* with some rows more."""
    return Staging(
        staging.sync_id,
        staging.rows + len(payloads),
        staging.bytes + sum(map(len, payloads)),
        combine(staging.checksum, rows_checksum(zip(payloads, item_keys, strict=True))),
    )


@dataclass(frozen=True, slots=True)
class Marks:
    """Where a receive queue stands, durably.

    Invariant: `boundary_seq <= received.seq`. Where they differ, a tick that came in parts is open: it began at
    `boundary_seq`, and `received.seq - boundary_seq` of its rows are there.
    """

    generation: int = 0
    received: Position = ORIGIN
    boundary_seq: int = 0
    staging: Staging = Staging()
    sync_id: str = ""
    sync_rows: int = 0
    base_seq: int = 0
    entries_total: int = 0
    duplicates_total: int = 0
    source_seq: int = 0
    source_us: int = 0
