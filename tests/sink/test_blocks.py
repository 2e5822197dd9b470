"""The sink stores blocks as they came: it verifies their checksums and sizes, and unpacks none."""

import zlib

import pytest
from sqlalchemy import select

from queues.database.tables.receive import receive_blocks
from queues.errors import NeedsFullSyncError
from queues.wire import replication_pb2 as pb
from tests.sink.conftest import accepted, refused, talk
from tests.sink.frames import FIRST, SECOND, batch, numbered, tick


def test_a_block_is_stored_byte_for_byte(sink, engine):
    accepted(talk(sink, FIRST))
    (group,) = FIRST.batch.groups
    with engine.connect() as connection:
        (row,) = connection.execute(select(receive_blocks))
    assert pb.Block.FromString(row.block) == group.block
    assert (row.end_seq, row.row_count, row.start_seq, row.tick_seq) == (3, 3, 0, 0)


@pytest.mark.parametrize("known", range(1, 6))
def test_a_repeated_part_brings_only_the_rows_that_are_new(sink, contents, known):
    accepted(talk(sink, batch(0, tick(0, 9, numbered(1, known), complete=False))))
    accepted(talk(sink, batch(0, tick(0, 9, numbered(1, 6), complete=False))))
    accepted(talk(sink, batch(0, tick(0, 9, numbered(1, 9)))))
    assert contents.log() == list(enumerate(numbered(1, 9), start=1))
    assert contents.transactions() == [(seq, 1) for seq in range(1, 10)]
    assert contents.marks().entries_total == 9


def test_a_repeated_part_counts_its_share_of_the_bytes(sink, engine, contents):
    accepted(talk(sink, batch(0, tick(0, 9, numbered(1, 2), complete=False))))
    whole = tick(0, 9, numbered(1, 9))
    accepted(talk(sink, batch(0, whole)))
    with engine.connect() as connection:
        first, second = connection.execute(select(receive_blocks.c.size).order_by(receive_blocks.c.end_seq)).scalars()
    assert second == whole.block.plain_size * 7 // 9 + 7 * 64
    assert contents.marks().bytes_total == first + second


def changed(**fields):
    """Return a frame like `SECOND` whose block has other *fields*."""
    frame = pb.Frame()
    frame.CopyFrom(SECOND)
    for name, value in fields.items():
        setattr(frame.batch.groups[0].block, name, value)
    return frame


BODY = SECOND.batch.groups[0].block.body


@pytest.mark.parametrize(
    "fields",
    [
        {"body": BODY[:-1] + b"?"},
        {"body": BODY[:-1], "crc32": zlib.crc32(BODY[:-1])},
        {"plain_size": len(BODY) + 1},
        {"codec": 7},
        {"codec": pb.ZSTD},
        {"codec": pb.ZSTD, "body": b"", "crc32": 0},
        {"rows": 2, "plain_size": 3},
    ],
    ids=["checksum", "shorter", "size", "codec", "no frame", "empty frame", "rows"],
)
def test_a_block_that_contradicts_itself_is_refused_before_it_is_stored(sink, contents, fields):
    assert refused(talk(sink, FIRST, changed(**fields))).kind == pb.Refusal.CORRUPT
    assert contents.log() == list(enumerate(numbered(1, 3), start=1))


def test_garbage_with_the_right_checksum_is_found_when_it_is_unpacked(sink, contents):
    garbage = b"\xff" * len(BODY)
    accepted(talk(sink, FIRST, changed(body=garbage, crc32=zlib.crc32(garbage))))
    with pytest.raises(NeedsFullSyncError, match="entries from 4 to 5 are damaged"):
        contents.log()
