"""Pack rows into a `Block` and unpack them; one block serves every session that sends the same rows."""

import threading
from collections.abc import Sequence
from typing import NamedTuple, TypeVar
from zlib import crc32

import zstandard
from google.protobuf.message import DecodeError, Message

from queues.block_limits import COUNTED_FROM, MAX_ROWS, check_count
from queues.entry_headers import parse
from queues.errors import CorruptFrameError, UsageError
from queues.wire.replication_pb2 import PLAIN, ZSTD, Block, EntryRows, SnapshotRows

#: Smaller bodies are sent uncompressed; in bytes.
COMPRESS_FROM = 512
_LEVEL = 1
# A row takes at least a tag and a length, which limits the rows of a valid block.
_LEAST_BYTES_A_ROW = 2


class EntryRow(NamedTuple):
    """One log entry of a tick.

    `transaction_index` counts from 0 in the tick's rows for this session. All rows of a source transaction have the
    index of its first row. Transactions joined by a replaced row share one index. `item_key` names the item that the
    payload replaces. `headers` is text of `queues.entry_headers`.
    """

    payload: bytes
    transaction_index: int
    committed_us: int
    item_key: str | None = None
    headers: str | None = None
    partition_key: str | None = None


class EntryColumns(NamedTuple):
    """The log entries of a block: one column for each field of `EntryRow`, all of the same length.

    `headers` and `partition_keys` are empty if no entry has any.
    """

    payloads: Sequence[bytes]
    transaction_indexes: Sequence[int]
    committed_us: Sequence[int]
    item_keys: Sequence[str | None]
    headers: Sequence[str | None]
    partition_keys: Sequence[str | None]


class SnapshotColumns(NamedTuple):
    """The rows of a snapshot in a block: two columns of the same length."""

    payloads: Sequence[bytes]
    item_keys: Sequence[str | None]


Rows = TypeVar("Rows", bound=Message)


def encode_entries(rows: Sequence[EntryRow]) -> Block:
    """Pack *rows*, in their order; raise `UsageError` for more than `MAX_ROWS`."""
    columns = EntryRows(
        payloads=[row.payload for row in rows],
        transactions=[row.transaction_index for row in rows],
        committed_us=[row.committed_us for row in rows],
        item_keys=_texts([row.item_key for row in rows]),
        headers=_texts([row.headers for row in rows]),
        partition_keys=_texts([row.partition_key for row in rows]),
    )
    return _pack(columns, len(rows))


def decode_entries(block: Block, limit: int) -> EntryColumns:
    """Unpack a block of `encode_entries`.

    Raises `CorruptFrameError` if the block is damaged, or the headers of an entry are beyond their limits. A block
    above *limit* bytes or `MAX_ROWS` raises it too, before anything is unpacked.
    """
    columns = _unpack(block, EntryRows, limit)
    payloads, transactions, committed_us = columns.payloads, columns.transactions, columns.committed_us
    keys = _checked_keys(block, len(payloads), columns.item_keys)
    if not len(payloads) == len(transactions) == len(committed_us):
        raise CorruptFrameError("the columns of a block differ in length")
    headers, partition_keys = (
        _checked_texts(len(payloads), each) for each in (columns.headers, columns.partition_keys)
    )
    for text in {text for text in headers if text}:
        parse(text)
    return EntryColumns(payloads, transactions, committed_us, keys, headers, partition_keys)


def check_packed(block: Block, limit: int) -> None:
    """Verify the checksum and the declared sizes of a block that stays packed.

    Raises `CorruptFrameError`, also for a block above *limit* bytes or `MAX_ROWS`.
    """
    _check_before_unpacking(block, block.body, limit)
    if (_content_size(block.body) if block.codec == ZSTD else len(block.body)) != block.plain_size:
        raise CorruptFrameError(f"a block of {len(block.body)} bytes does not hold the {block.plain_size} that it says")


def encode_snapshot(rows: SnapshotColumns) -> Block:
    """Pack *rows*, in their order; raise `UsageError` for more than `MAX_ROWS`."""
    columns = SnapshotRows(payloads=rows.payloads, item_keys=_texts(rows.item_keys))
    return _pack(columns, len(rows.payloads))


def decode_snapshot(block: Block, limit: int) -> SnapshotColumns:
    """Unpack a block of `encode_snapshot`; raises the errors of `decode_entries`."""
    columns = _unpack(block, SnapshotRows, limit)
    return SnapshotColumns(columns.payloads, _checked_keys(block, len(columns.payloads), columns.item_keys))


def _texts(texts: Sequence[str | None]) -> list[str]:
    return [text or "" for text in texts] if any(texts) else []


def _checked_keys(block: Block, rows: int, keys: Sequence[str]) -> Sequence[str | None]:
    if rows != block.rows:
        raise CorruptFrameError(f"a block holds {rows} rows, but says {block.rows}")
    return _checked_texts(rows, keys) or [None] * rows


def _checked_texts(rows: int, texts: Sequence[str]) -> Sequence[str | None]:
    if texts and len(texts) != rows:
        raise CorruptFrameError("the columns of a block differ in length")
    return [text or None for text in texts]


class _Codecs(threading.local):
    """One compressor and one decompressor for each thread: they are costly to make and not safe to share."""

    def __init__(self) -> None:
        self.pack = zstandard.ZstdCompressor(level=_LEVEL)
        self.unpack = zstandard.ZstdDecompressor()


_codecs = _Codecs()


def _pack(columns: Message, rows: int) -> Block:
    if rows > MAX_ROWS:
        raise UsageError(f"a block has at most {MAX_ROWS} rows, not {rows}: lower tick_rows")
    plain = columns.SerializeToString()
    codec, body = PLAIN, plain
    if len(plain) >= COMPRESS_FROM:
        packed = _codecs.pack.compress(plain)
        if len(packed) < len(plain):
            codec, body = ZSTD, packed
    return Block(codec=codec, rows=rows, crc32=crc32(body), body=body, plain_size=len(plain))


def _unpack(block: Block, columns: type[Rows], limit: int) -> Rows:
    body = block.body
    _check_before_unpacking(block, body, limit)
    plain = _decompress(body, block.plain_size) if block.codec == ZSTD else body
    if len(plain) != block.plain_size:
        raise CorruptFrameError(f"a block unpacks to {len(plain)} bytes, but says {block.plain_size}")
    if len(plain) > COUNTED_FROM:
        check_count(plain, block.rows, *_column_kinds(columns))
    try:
        return columns.FromString(plain)
    except DecodeError as error:
        raise CorruptFrameError(f"the rows of a block cannot be read: {error}") from error


def _column_kinds(columns: type[Message]) -> tuple[frozenset[int], int]:
    """Return the numbers of the packed columns, and the number of the others."""
    fields = columns.DESCRIPTOR.fields
    packed = frozenset(field.number for field in fields if field.is_packed)
    return packed, len(fields) - len(packed)


def _check_before_unpacking(block: Block, body: bytes, limit: int) -> None:
    if crc32(body) != block.crc32:
        raise CorruptFrameError(f"the checksum of a block of {len(body)} bytes is wrong")
    if block.codec not in (PLAIN, ZSTD):
        raise CorruptFrameError(f"a block has the unknown codec {block.codec}")
    if block.plain_size > limit:
        raise CorruptFrameError(f"a block would unpack to {block.plain_size} bytes, the limit is {limit}")
    if block.rows > MAX_ROWS:
        raise CorruptFrameError(f"a block says {block.rows} rows, the limit is {MAX_ROWS}")
    if block.rows * _LEAST_BYTES_A_ROW > block.plain_size:
        raise CorruptFrameError(f"a block says {block.rows} rows in {block.plain_size} bytes")


def _decompress(body: bytes, plain_size: int) -> bytes:
    # The decompressor trusts the size in the frame's header; therefore that size must equal the checked one.
    if _content_size(body) != plain_size:
        raise CorruptFrameError("the size in a compressed block differs from the one that it says")
    try:
        return _codecs.unpack.decompress(body, max_output_size=plain_size, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CorruptFrameError(f"a block cannot be decompressed: {error}") from error


def _content_size(body: bytes) -> int:
    try:
        return zstandard.frame_content_size(body)
    except zstandard.ZstdError as error:
        raise CorruptFrameError(f"a block cannot be decompressed: {error}") from error
