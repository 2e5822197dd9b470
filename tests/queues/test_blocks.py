"""Blocks give back the rows that were packed, and refuse damaged bytes."""

import random

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from queues.blocks import EntryRow, SnapshotColumns, decode_entries, decode_snapshot, encode_entries, encode_snapshot
from queues.entry_headers import MAX_STORED_BYTES, checked_headers
from queues.errors import CorruptFrameError
from queues.wire import replication_pb2 as pb

LIMIT = 1_000_000
KEYS = st.none() | st.text(min_size=1, max_size=9)


HEADERS = st.none() | st.dictionaries(st.sampled_from("abcé"), st.text('x"\\\n é', max_size=3), min_size=1).map(
    checked_headers
)
TIMES = st.integers(0, 2**62)


@given(st.lists(st.builds(EntryRow, st.binary(max_size=300), st.integers(0, 99), TIMES, KEYS, st.none(), st.none())))
def test_decoded_log_entries_equal_the_encoded_ones(rows):
    *columns, headers, partition_keys = decode_entries(encode_entries(rows), LIMIT)
    assert list(map(EntryRow, *columns)) == rows
    assert (headers, partition_keys) == ([], [])


@given(st.lists(st.builds(EntryRow, st.binary(max_size=9), st.integers(0, 99), TIMES, KEYS, HEADERS, KEYS)))
def test_headers_and_partition_keys_are_decoded_as_they_were_encoded(rows):
    *columns, headers, partition_keys = decode_entries(encode_entries(rows), LIMIT)
    nothing = [None] * len(rows)
    assert list(map(EntryRow, *columns, headers or nothing, partition_keys or nothing)) == rows
    assert bool(headers) == any(row.headers for row in rows)
    assert bool(partition_keys) == any(row.partition_key for row in rows)


# The bytes of the version without headers.
_BEFORE = (
    "10031dbcce810822390a036f6e650a000a0800ff20746872656512030000021a1880c0b1d5aec5910380c0b1d5aec5910387c0b1d5aec59103"
    "2203636467220022002839"
)
_BEFORE_WITHOUT_KEYS = (
    "10031d1b8e4a2822300a036f6e650a000a0800ff20746872656512030000021a1880c0b1d5aec5910380c0b1d5aec5910387c0b1d5aec59103"
    "2830"
)


@pytest.mark.parametrize(("item_key", "before"), [("cdg", _BEFORE), (None, _BEFORE_WITHOUT_KEYS)])
def test_entries_without_headers_have_the_bytes_of_the_version_before(item_key, before):
    time = 1_766_000_000_000_000
    rows = [EntryRow(b"one", 0, time, item_key), EntryRow(b"", 0, time), EntryRow(b"\x00\xff three", 2, time + 7)]
    assert encode_entries(rows).SerializeToString().hex() == before


def test_a_sink_of_the_version_before_reads_all_columns_but_the_new_ones():
    rows = [EntryRow(b"one", 0, 7, "cdg", '{"a":"b"}', "north"), EntryRow(b"two", 0, 7)]
    known = pb.EntryRows.FromString(encode_entries(rows).body)
    known.ClearField("headers")
    known.ClearField("partition_keys")
    plain = [row._replace(headers=None, partition_key=None) for row in rows]
    assert known.SerializeToString() == encode_entries(plain).body


def columns(**changed: list[str]) -> pb.Block:
    rows = pb.EntryRows(payloads=[b"1", b"2"], transactions=[0, 0], committed_us=[5, 5], **changed)
    body = rows.SerializeToString()
    return again(pb.Block(codec=pb.PLAIN, rows=2, body=body, plain_size=len(body)))


@pytest.mark.parametrize("name", ["headers", "partition_keys"])
@pytest.mark.parametrize("texts", [["{}"], ['{"a":"b"}'] * 3])
def test_a_column_of_another_length_is_refused(name, texts):
    with pytest.raises(CorruptFrameError, match="differ in length"):
        decode_entries(columns(**{name: texts}), LIMIT)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x", "no JSON"),
        ("[]", "no JSON object"),
        ('{"a":1}', "must be a string, not int"),
        ('{"a":"' + "x" * MAX_STORED_BYTES + '"}', "more than 8256 bytes"),
        ("[" * 8_000, "no JSON"),
    ],
    ids=["words", "list", "number", "large", "deep"],
)
def test_headers_that_no_source_sends_are_refused(text, words):
    with pytest.raises(CorruptFrameError, match=words):
        decode_entries(columns(headers=["", text]), LIMIT)


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
