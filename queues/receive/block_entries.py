"""The entries of one block of a receive queue, unpacked: their rows, their sizes and their source transactions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from google.protobuf.message import DecodeError

from queues.blocks import EntryColumns, decode_entries
from queues.entry_headers import text_size
from queues.errors import CorruptFrameError, NeedsFullSyncError
from queues.receive.received_rows import LogRowColumns
from queues.wire.replication_pb2 import Block


class ReceivedBlock(NamedTuple):
    """One block as stored; see `lrq_receive_blocks` for the fields."""

    end_seq: int
    row_count: int
    start_seq: int
    tick_seq: int
    size: int
    block: bytes


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of entries in order, as columns of equal length; `bytes` are those of payload and headers."""

    seqs: list[int] = field(default_factory=list)
    transactions: list[int] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.seqs)

    def extend(self, more: "Sizes") -> None:
        """Add the entries of *more*."""
        self.seqs.extend(more.seqs)
        self.transactions.extend(more.transactions)
        self.bytes.extend(more.bytes)


class TransactionPart(NamedTuple):
    """The entries of one source transaction in one block, with numbers `first` to `end` and their partition keys."""

    transaction_seq: int
    first: int
    end: int
    keys: frozenset[str | None]
    entries: int
    bytes: int


class LogEntries:
    """The unpacked entries of one block, from number `first` to `end_seq`, without gaps."""

    def __init__(self, packed: ReceivedBlock) -> None:
        """Unpack a block; raises `NeedsFullSyncError` if it is damaged."""
        self.end_seq = packed.end_seq
        self.first = packed.end_seq - packed.row_count + 1
        self.size = packed.size
        columns = self._unpacked(packed)
        kept = slice(self.first - packed.start_seq - 1, packed.end_seq - packed.start_seq)
        first_of_tick = packed.tick_seq + 1
        no_texts = [None] * packed.row_count
        payloads = list(columns.payloads[kept])
        headers: Sequence[str | None] = columns.headers[kept] or no_texts
        # Columns and sizes are made together with the rest, so that the thread that unpacks ahead makes them too.
        self._rows = LogRowColumns(
            range(self.first, self.end_seq + 1),
            [first_of_tick + index for index in columns.transaction_indexes[kept]],
            list(columns.committed_us[kept]),
            columns.item_keys[kept],
            payloads,
            headers,
            columns.partition_keys[kept] or no_texts,
        )
        self._bytes = list(map(len, payloads))
        if columns.headers:
            more = (text_size(text) if text else 0 for text in headers)
            self._bytes = [size + added for size, added in zip(self._bytes, more, strict=True)]

    def _unpacked(self, packed: ReceivedBlock) -> EntryColumns:
        try:
            block = Block.FromString(packed.block)
            columns = decode_entries(block, block.plain_size)
            if len(columns.payloads) < packed.end_seq - packed.start_seq:
                raise CorruptFrameError(f"the block has only {len(columns.payloads)} rows")
        except (CorruptFrameError, DecodeError) as error:
            raise NeedsFullSyncError(
                f"the entries from {self.first} to {self.end_seq} are damaged where they are stored ({error}): "
                "request a snapshot"
            ) from error
        return columns

    def rows(self, after: int, upto: int) -> LogRowColumns:
        """Return the entries with `after < seq <= upto`."""
        part = self._part(after, upto)
        return self._rows.part(part.start, part.stop)

    def sizes(self, after: int, upto: int) -> Sizes:
        """Return the sizes of the entries with `after < seq <= upto`."""
        part = self._part(after, upto)
        seqs = list(range(max(after + 1, self.first), upto + 1))
        return Sizes(seqs, list(self._rows.transaction_seq[part]), self._bytes[part])

    def transactions(self, after: int, upto: int) -> Iterator[TransactionPart]:
        """Yield the entries with `after < seq <= upto`, grouped by their source transactions."""
        part = self._part(after, upto)
        sizes = self.sizes(after, upto)
        begin = 0
        for transaction, group in groupby(sizes.transactions):
            count = sum(1 for _ in group)
            own = slice(begin, begin + count)
            seqs, keys = sizes.seqs[own], frozenset(self._rows.partition_key[part][own])
            yield TransactionPart(transaction, seqs[0], seqs[-1], keys, count, sum(sizes.bytes[own]))
            begin += count

    def _part(self, after: int, upto: int) -> slice:
        return slice(max(after + 1 - self.first, 0), min(upto, self.end_seq) + 1 - self.first)
