"""Pack the rows of a snapshot into blocks as they arrive. Pure."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from queues.blocks import SnapshotColumns, encode_snapshot
from queues.checksum import combine, rows_checksum

#: The most rows of a block: enough to share the fixed cost, few enough for reading a single row.
BLOCK_ROWS: Final = 1_000
#: The most payload bytes of a block. Larger blocks hardly compress better, and live entries wait longer beside them.
BLOCK_BYTES: Final = 256 * 1024
#: The longest item key, in bytes.
KEY_BYTES: Final = 4 * 512
#: The size of a block that each sink must take: earlier versions filled blocks with 512 KiB of payloads. Tags and
#: lengths take at most 12 bytes a row.
TAKEN_BLOCK_BYTES: Final = 512 * 1024 + BLOCK_ROWS * (KEY_BYTES + 12)


@dataclass(frozen=True, slots=True)
class WriteLimits:
    """Limits of one batch, one block and one payload, and `patience`, the seconds of retries on a busy database.

    A payload above the limit of a batch or block is alone in it.
    """

    batch_rows: int = 2_000
    batch_bytes: int = 4 * 1024 * 1024
    payload_bytes: int = 16 * 1024 * 1024
    patience: float = 60.0
    block_rows: int = BLOCK_ROWS
    block_bytes: int = BLOCK_BYTES


class PackedRows(NamedTuple):
    """Rows as they are stored: their `Block` and its size when unpacked, in bytes."""

    rows: int
    plain_size: int
    block: bytes


class Batch:
    """The rows of one transaction: packed blocks, and the rows of the next block, still as objects.

    `rows`, `bytes` (of payload) and `checksum` cover the packed rows; after `close`, these are all rows.
    """

    def __init__(self, limits: WriteLimits) -> None:
        """Start without rows."""
        self._limits = limits
        self._packed: list[PackedRows] = []
        self._payloads: list[bytes] = []
        self._keys: list[str | None] = []
        self._rows_left = self._bytes_left = 0
        self.rows = self.bytes = self.checksum = 0

    @property
    def is_full(self) -> bool:
        """Whether not even an empty payload fits any more."""
        return not self._rows_left and self.rows + len(self._payloads) >= self._limits.batch_rows

    def add(self, payload: bytes, item_key: str | None) -> bool:
        """Append one row; return False, without any change, if the row does not fit."""
        size = len(payload)
        if (size > self._bytes_left or not self._rows_left) and not self._begin_block(size):
            return False
        self._payloads.append(payload)
        self._keys.append(item_key)
        self._rows_left -= 1
        self._bytes_left -= size
        return True

    def extend(
        self, payloads: Sequence[bytes], item_keys: Sequence[str | None], sizes: Sequence[int], start: int
    ) -> int:
        """Append the rows from *start* on that fit into one block; return their number.

        The number is 0 if the next row does not fit. `sizes[n]` is the total size of the first *n* payloads.
        """
        fitting = self._fitting(sizes, start)
        if not fitting and self._begin_block(sizes[start + 1] - sizes[start]):
            fitting = self._fitting(sizes, start)
        end = start + fitting
        self._payloads += payloads[start:end]
        self._keys += item_keys[start:end]
        self._rows_left -= fitting
        self._bytes_left -= sizes[end] - sizes[start]
        return fitting

    def close(self) -> Sequence[PackedRows]:
        """Pack the last rows and return all blocks."""
        self._pack()
        self._rows_left = 0
        return self._packed

    def _fitting(self, sizes: Sequence[int], start: int) -> int:
        end = min(start + self._rows_left, len(sizes) - 1)
        return bisect_right(sizes, sizes[start] + self._bytes_left, start + 1, end + 1) - 1 - start

    def _begin_block(self, size: int) -> bool:
        """Start a block with room for a payload of *size* bytes; return False if the batch has none."""
        self._pack()
        limits = self._limits
        rows_left, bytes_left = limits.batch_rows - self.rows, limits.batch_bytes - self.bytes
        if self._packed and (rows_left <= 0 or size > bytes_left):
            return False
        self._rows_left, self._bytes_left = min(limits.block_rows, rows_left), min(limits.block_bytes, bytes_left)
        if size > self._bytes_left:
            self._rows_left, self._bytes_left = 1, size
        return True

    def _pack(self) -> None:
        payloads, keys = self._payloads, self._keys
        if not payloads:
            return
        block = encode_snapshot(SnapshotColumns(payloads, keys))
        self._packed.append(PackedRows(block.rows, block.plain_size, block.SerializeToString()))
        self.rows += len(payloads)
        self.bytes += sum(map(len, payloads))
        self.checksum = combine(self.checksum, rows_checksum(zip(payloads, keys, strict=True)))
        self._payloads, self._keys = [], []
