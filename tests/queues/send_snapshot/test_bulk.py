"""Many rows at a time: bulk statements lose and change no row, and a lost batch ends the part."""

from itertools import accumulate

import pytest
from sqlalchemy import Engine, delete, exc, select

from lr_client.arguments import MAX_KEY_LENGTH
from queues.blocks import decode_snapshot
from queues.checksum import rows_checksum
from queues.database import dialects
from queues.database.tables.consumers import parked_entries as entries
from queues.database.tables.snapshots import snapshot_blocks as blocks
from queues.database.transactions import reading, writing
from queues.errors import PayloadTooLargeError, SnapshotFailedError
from queues.send_snapshot.block_packer import BLOCK_BYTES, BLOCK_ROWS, KEY_BYTES, Batch, WriteLimits
from queues.send_snapshot.states import Part
from queues.send_snapshot.writer import PartWriter
from queues.wire import replication_pb2 as pb

_COLUMNS = (
    "id", "queue_id", "seq", "transaction_seq", "committed_us", "kind", "branch", "error", "tries", "parked_us",
    "item_key", "payload",
)  # fmt: skip
_SAME = ("log", "b1", "no", 1, 9)


def test_inserted_rows_are_selected_unchanged(site: Engine) -> None:
    rows = [
        (1, 2**31 - 1, 1, 2**63 - 1, 7, *_SAME, None, b""),
        (2, 2**31 - 1, 2, 2**63 - 1, 7, *_SAME, "", b"\x00\xff"),
        (3, -(2**31), 3, -(2**63), 7, *_SAME, "ключ", bytes(100_000)),
    ]
    with writing(site) as connection:
        dialects.of(connection).bulk_insert(connection, entries, _COLUMNS, iter(rows))
        dialects.of(connection).bulk_insert(connection, entries, _COLUMNS, iter(()))
    with reading(site) as connection:
        wanted = select(*(entries.c[name] for name in _COLUMNS)).where(entries.c.seq > 0).order_by(entries.c.seq)
        found = dialects.of(connection).bulk_select(connection, wanted)
    assert [(*row[:-1], bytes(row[-1])) for row in found] == rows


def test_bulk_inserts_raise_the_errors_of_other_statements(site: Engine) -> None:
    row = (1, 1, 1, 1, 1, *_SAME, None, b"")
    with pytest.raises(exc.IntegrityError), writing(site) as connection:
        dialects.of(connection).bulk_insert(connection, entries, _COLUMNS, [row, row])


def written(site: Engine, sync_id: str) -> list[tuple[int, pb.Block]]:
    """Return the blocks of *sync_id*, each with the number of its last row."""
    wanted = select(blocks).where(blocks.c.sync_id == sync_id).order_by(blocks.c.last_ord)
    with reading(site) as connection:
        found = [(row, pb.Block.FromString(row.block)) for row in connection.execute(wanted)]
    assert all((row.row_count, row.plain_size) == (block.rows, block.plain_size) for row, block in found)
    return [(row.last_ord, block) for row, block in found]


def payloads(block: pb.Block) -> list[bytes]:
    return list(decode_snapshot(block, 1 << 20).payloads)


_FULL = BLOCK_BYTES // BLOCK_ROWS


@pytest.mark.parametrize("sizes", [[_FULL] * BLOCK_ROWS, [BLOCK_BYTES - BLOCK_ROWS + 1] + [1] * (BLOCK_ROWS - 1)])
def test_a_full_block_with_the_longest_keys_needs_no_more_than_a_sink_must_take(sizes: list[int]) -> None:
    batch = Batch(WriteLimits())
    for size in sizes:
        assert batch.add(bytes(size), "\U0001f600" * MAX_KEY_LENGTH)
    (block,) = batch.close()
    assert block.rows == BLOCK_ROWS
    full = BLOCK_BYTES + BLOCK_ROWS * (KEY_BYTES + 12)
    assert 0.9 * full < block.plain_size <= full


@pytest.mark.parametrize(
    "limits",
    [
        WriteLimits(batch_rows=30, batch_bytes=1_000),
        WriteLimits(batch_rows=30, batch_bytes=1_000, block_rows=7, block_bytes=300),
        WriteLimits(batch_rows=1, block_rows=1),
        WriteLimits(block_bytes=1, batch_bytes=1),
        WriteLimits(),
    ],
)
def test_rows_added_together_equal_rows_added_one_by_one(site: Engine, limits: WriteLimits) -> None:
    rows = [(b"%d" % number * (number % 40), str(number) if number % 3 else "") for number in range(100)]
    writers = [
        PartWriter(site, name, part=1, attempt=2, limits=limits, in_batch=lambda *_: None) for name in ("one", "many")
    ]
    for start in range(0, 100, 7):
        for payload, key in rows[start : start + 7]:
            writers[0].add(payload, key)
        writers[1].add_many(*zip(*rows[start : start + 7], strict=True))
    for writer in writers:
        writer.flush()
    assert (
        writers[0].written == writers[1].written == Part(1, 2, 100, sum(len(p) for p, _ in rows), rows_checksum(rows))
    )
    one, many = written(site, "one"), written(site, "many")
    assert one == many
    assert [last for last, _ in one] == list(accumulate(block.rows for _, block in one))
    assert [payload for _, block in one for payload in payloads(block)] == [payload for payload, _ in rows]
    for _, block in one:
        assert block.rows <= min(limits.block_rows, limits.batch_rows)
        assert block.rows == 1 or sum(map(len, payloads(block))) <= min(limits.block_bytes, limits.batch_bytes)


def test_a_payload_above_the_limits_of_a_block_has_its_own_block(site: Engine) -> None:
    large = bytes(101)
    limits = WriteLimits(block_bytes=100, batch_bytes=250)
    writer = PartWriter(site, "s", part=0, attempt=0, limits=limits, in_batch=lambda *_: None)
    writer.add_many([b"1", b"2", large, b"3", large, large, b"4"], [None] * 7)
    writer.flush()
    assert [payloads(block) for _, block in written(site, "s")] == [
        [b"1", b"2"], [large], [b"3"], [large], [large], [b"4"]
    ]  # fmt: skip


def test_no_row_of_a_call_is_added_if_one_is_too_large(site: Engine) -> None:
    writer = PartWriter(site, "s", part=0, attempt=0, limits=WriteLimits(payload_bytes=10), in_batch=lambda *_: None)
    with pytest.raises(PayloadTooLargeError):
        writer.add_many([b"1", b"x" * 11], [None, None])
    writer.flush()
    assert writer.written.rows == 0


def test_blocks_are_compressed_if_that_saves_space(site: Engine) -> None:
    writer = PartWriter(site, "s", part=0, attempt=0, limits=WriteLimits(), in_batch=lambda *_: None)
    writer.add_many([b"the same words again and again"] * 1_000, [None] * 1_000)
    writer.flush()
    ((_, block),) = written(site, "s")
    assert (block.codec, block.rows) == (pb.ZSTD, 1_000)
    assert len(block.body) < 3_000


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_no_batch_is_written_after_a_batch_that_a_crash_has_lost(site: Engine) -> None:
    limits = WriteLimits(batch_rows=2, patience=0.0)
    writer = PartWriter(site, "s", part=1, attempt=2, limits=limits, in_batch=lambda *_: None)
    writer.add_many([b"1", b"2"], [None, None])
    with writing(site) as connection:
        connection.execute(delete(blocks).where(blocks.c.sync_id == "s"))
    with pytest.raises(SnapshotFailedError, match="rows up to 2 of part 1 are lost"):
        writer.add_many([b"3", b"4"], [None, None])
