"""Blocks give back the rows that were packed, and refuse damaged bytes."""

import random

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from queues.blocks import EntryRow, SnapshotColumns, decode_entries, decode_snapshot, encode_entries, encode_snapshot
from queues.errors import CorruptFrameError
from queues.wire import replication_pb2 as pb

LIMIT = 1_000_000
KEYS = st.none() | st.text(min_size=1, max_size=9)


@given(st.lists(st.builds(EntryRow, st.binary(max_size=300), st.integers(0, 99), st.integers(0, 2**62), KEYS)))
def test_decoded_log_entries_equal_the_encoded_ones(rows):
    assert list(map(EntryRow, *decode_entries(encode_entries(rows), LIMIT))) == rows


@given(st.lists(st.tuples(st.binary(max_size=300), KEYS)))
def test_decoded_snapshot_entries_equal_the_encoded_ones(rows):
    columns = SnapshotColumns([payload for payload, _ in rows], [key for _, key in rows])
    assert list(zip(*decode_snapshot(encode_snapshot(columns), LIMIT), strict=True)) == rows


def one(payload: bytes) -> pb.Block:
    return encode_snapshot(SnapshotColumns([payload], [None]))


def test_a_large_body_that_shrinks_is_compressed():
    block = one(b"a" * 10_000)
    assert block.codec == pb.ZSTD
    assert len(block.body) < 200


def test_a_small_body_is_not_compressed():
    assert one(b"a" * 100).codec == pb.PLAIN


def test_a_body_that_does_not_shrink_is_not_compressed():
    assert one(random.Random(1).randbytes(10_000)).codec == pb.PLAIN


def entries(*payloads: bytes) -> pb.Block:
    return encode_entries([EntryRow(payload, 0, 0) for payload in payloads])


def test_a_flipped_bit_anywhere_in_the_body_is_found():
    block = entries(b"x" * 1000)
    for index in range(len(block.body)):
        damaged = bytearray(block.body)
        damaged[index] ^= 1
        with pytest.raises(CorruptFrameError, match="checksum"):
            decode_entries(pb.Block(codec=block.codec, rows=1, crc32=block.crc32, body=bytes(damaged)), LIMIT)


def again(block: pb.Block, **changes: object) -> pb.Block:
    """Return *block* with these changes and a checksum that fits."""
    from zlib import crc32

    changed = pb.Block()
    changed.CopyFrom(block)
    for name, value in changes.items():
        setattr(changed, name, value)
    changed.crc32 = crc32(changed.body)
    return changed


@pytest.mark.parametrize("block", [entries(b"x" * 100), entries(b"x" * 10_000)], ids=["plain", "zstd"])
def test_a_truncated_body_is_refused_even_with_a_fitting_checksum(block):
    for size in range(len(block.body)):
        with pytest.raises(CorruptFrameError):
            decode_entries(again(block, body=block.body[:size]), LIMIT)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rows": 3}, "holds 2 rows, but says 3"),
        ({"rows": 1_000}, "rows in"),
        ({"rows": 2**31}, "the limit is"),
        ({"plain_size": 7}, "unpacks to"),
        ({"plain_size": LIMIT + 1}, "the limit is"),
        ({"codec": 9}, "unknown codec 9"),
    ],
)
def test_a_block_that_contradicts_itself_is_refused(changes, words):
    with pytest.raises(CorruptFrameError, match=words):
        decode_entries(again(entries(b"one", b"two"), **changes), LIMIT)


def test_columns_of_different_length_are_refused():
    columns = pb.EntryRows(payloads=[b"one", b"two"], transactions=[0], committed_us=[0, 0])
    body = columns.SerializeToString()
    block = again(pb.Block(rows=2, body=body, plain_size=len(body)))
    with pytest.raises(CorruptFrameError, match="differ in length"):
        decode_entries(block, LIMIT)


def test_a_decompression_bomb_is_refused_before_it_is_unpacked():
    bomb = zstandard.ZstdCompressor().compress(bytes(200_000_000))
    honest = again(pb.Block(codec=pb.ZSTD, rows=1, body=bomb, plain_size=200_000_000))
    with pytest.raises(CorruptFrameError, match="the limit is"):
        decode_entries(honest, LIMIT)
    with pytest.raises(CorruptFrameError, match="differs"):
        decode_entries(again(honest, plain_size=100), LIMIT)
