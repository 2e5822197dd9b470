"""No small message becomes more rows than source and sink have agreed on."""

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from queues import blocks
from queues.block_limits import MAX_GROUPS, MAX_ROWS, Extent, check_count, too_many
from queues.blocks import EntryRow, SnapshotColumns, decode_entries, decode_snapshot, encode_entries, encode_snapshot
from queues.errors import CorruptFrameError, UsageError
from queues.wire import replication_pb2 as pb
from tests.queues.test_blocks import again

MIB = 1024**2
KEYS = st.none() | st.text(min_size=1, max_size=9)
PACKED_ENTRIES = frozenset({2, 3})


def bomb(plain: bytes, rows: int) -> pb.Block:
    """Return a compressed block with *plain* as its rows, which says *rows*."""
    body = zstandard.ZstdCompressor(level=19).compress(plain)
    return again(pb.Block(codec=pb.ZSTD, rows=rows, body=body, plain_size=len(plain)))


@pytest.mark.parametrize("decode", [decode_entries, decode_snapshot])
def test_a_block_that_says_too_many_rows_is_refused_before_it_is_unpacked(decode, monkeypatch):
    monkeypatch.setattr(blocks, "_decompress", lambda *_: pytest.fail("unpacked"))
    small = bomb(b"\n\x00" * (MAX_ROWS + 1), MAX_ROWS + 1)
    assert len(small.body) < 200
    with pytest.raises(CorruptFrameError, match=f"says {MAX_ROWS + 1} rows, the limit is {MAX_ROWS}"):
        decode(small, 32 * MIB)


@pytest.mark.parametrize(
    ("decode", "plain"),
    [
        (decode_entries, b"\n\x00"),
        (decode_snapshot, b"\n\x00"),
        (decode_snapshot, b'"\x00'),
        (decode_entries, b"\x8a\x00\x00"),
        (decode_entries, b"\x10\x00"),
        (decode_entries, b"\x18\x00"),
        (decode_entries, b"\x12\x04\x00\x00\x00\x00"),
        (decode_entries, b"\x1a\x04\x00\x00\x00\x00"),
        (decode_entries, b"*\x00"),
        (decode_entries, b"2\x00"),
        (decode_snapshot, b"\x78\x00"),
    ],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
def test_a_block_with_more_elements_than_rows_is_refused_before_it_is_parsed(decode, plain):
    with pytest.raises(CorruptFrameError, match="more than the 1 rows that it says"):
        decode(bomb(plain * (2 * MIB // len(plain)), 1), 32 * MIB)


@pytest.mark.parametrize("plain", [b"\x0b" * 2 * MIB, b"\xff" * 2 * MIB, b"\n\x85" * MIB])
def test_a_large_block_that_cannot_be_read_is_refused(plain):
    with pytest.raises(CorruptFrameError):
        decode_snapshot(bomb(plain, 1), 32 * MIB)


@given(
    st.lists(st.builds(EntryRow, st.binary(max_size=300), st.integers(0, 99), st.integers(0, 2**62), KEYS, KEYS, KEYS))
)
def test_rows_that_were_packed_pass_the_count(rows):
    columns = pb.EntryRows(
        payloads=[row.payload for row in rows],
        transactions=[row.transaction_index for row in rows],
        committed_us=[row.committed_us for row in rows],
        item_keys=[row.item_key or "" for row in rows],
        headers=[row.headers or "" for row in rows],
        partition_keys=[row.partition_key or "" for row in rows],
    )
    check_count(columns.SerializeToString(), len(rows), PACKED_ENTRIES, 4)


def test_a_large_block_with_all_columns_is_unpacked():
    rows = [EntryRow(b"", index, 2**62, f"key {index}", '{"a":"b"}', f"part {index}") for index in range(60_000)]
    found = decode_entries(encode_entries(rows), 32 * MIB)
    assert list(map(EntryRow, *found)) == rows


def test_a_large_block_of_honest_rows_is_unpacked():
    rows = [EntryRow(b"x" * 10, index, 1_766_000_000_000_000, f"key {index}") for index in range(100_000)]
    assert decode_entries(encode_entries(rows), 32 * MIB).payloads == [row.payload for row in rows]
    columns = SnapshotColumns([b"y" * MIB, b"y" * MIB, b""], [None, "k", None])
    assert list(decode_snapshot(encode_snapshot(columns), 32 * MIB).payloads) == columns.payloads


def test_a_block_of_the_most_rows_is_packed_and_unpacked_and_of_more_rows_is_not_packed():
    most = SnapshotColumns([b""] * MAX_ROWS, [None] * MAX_ROWS)
    assert len(decode_snapshot(encode_snapshot(most), 32 * MIB).payloads) == MAX_ROWS
    with pytest.raises(UsageError, match="lower tick_rows"):
        encode_snapshot(SnapshotColumns([b""] * (MAX_ROWS + 1), [None] * (MAX_ROWS + 1)))


def test_the_counts_of_a_frame_have_limits():
    assert too_many(Extent(MAX_GROUPS, MAX_ROWS, 0)) == ""
    assert "rows" in too_many(Extent(1, MAX_ROWS + 1, 0))
    assert "ticks or blocks" in too_many(Extent(MAX_GROUPS + 1, 0, 0))
