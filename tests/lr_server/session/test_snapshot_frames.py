"""A snapshot as frames: the stored blocks, from the block of the sink's last row on."""

from collections.abc import Sequence

import pytest
from sqlalchemy import Engine, delete
from sqlalchemy.orm import Session

from lr_client.sender import RoutingQueueSenderClient
from queues import send_snapshot
from queues.blocks import decode_snapshot
from queues.database import leases
from queues.database.tables.snapshots import snapshot_blocks
from queues.database.transactions import writing
from queues.errors import ConfigurationError, SnapshotCancelledError
from queues.send_log.branches import begin_branch, newest_branch
from queues.send_log.opening import open_log
from queues.send_log.port import TickLimits
from queues.send_snapshot import blocks as stored_blocks
from queues.send_snapshot.block_packer import WriteLimits
from queues.wire import replication_pb2 as pb
from tests.lr_client.snapshot.providing import (
    Provider,
    by_id,
    claim,
    newest,
    numbered,
    publish,
    quick,
    ready,
    request,
    write_part,
)
from tests.lr_server.session.snapshot_work import frames_of

pytestmark = pytest.mark.long

PARTS = ([b"%d" % n * (n % 7) for n in range(23)], [], [b"x"], [b"%d" % n * (n % 5) for n in range(11)])
ROWS = [payload for part in PARTS for payload in part]


def published(engine: Engine, parts: Sequence[list[bytes]], block_rows: int) -> str:
    (sync_id,) = request(engine, "tokyo")
    attempt = claim(engine)
    limits = WriteLimits(block_rows=block_rows)
    publish(engine, attempt, *(write_part(engine, attempt, n, part, limits=limits) for n, part in enumerate(parts)))
    return sync_id


def chunks(engine: Engine, sync_id: str, after_row: int, chunk_bytes: int) -> list[tuple[pb.SnapshotChunk, int]]:
    """Return the chunks of a transfer, each with the sink's last row after it."""
    begin, *middle, end = frames_of(engine, by_id(engine, sync_id), after_row, chunk_bytes=chunk_bytes)
    assert begin[0].snapshot_begin.sync_id == end[0].snapshot_end.sync_id == sync_id
    assert (begin[1], end[1], end[0].snapshot_end.rows) == (after_row, len(ROWS), len(ROWS))
    assert {frame.WhichOneof("kind") for frame, _, _ in middle} <= {"snapshot_chunk"}
    return [(frame.snapshot_chunk, row) for frame, row, _ in middle]


@pytest.mark.parametrize("block_rows", [1, 4, 1000])
@pytest.mark.parametrize("chunk_bytes", [1, 50, 1 << 20])
def test_frames_bring_all_rows_after_any_row_in_order(site: Engine, block_rows: int, chunk_bytes: int) -> None:
    sync_id = published(site, PARTS, block_rows)
    for after_row in range(len(ROWS) + 1):
        staged = ROWS[:after_row]
        for chunk, row in chunks(site, sync_id, after_row, chunk_bytes):
            rows = [payload for block in chunk.blocks for payload in decode_snapshot(block, 1 << 20).payloads]
            assert 1 <= chunk.first_row <= len(staged) + 1 <= chunk.first_row + len(rows) - 1 == row
            staged += rows[len(staged) + 1 - chunk.first_row :]
        assert staged == ROWS


def test_a_frame_holds_several_blocks_up_to_its_size(site: Engine) -> None:
    sync_id = published(site, PARTS, block_rows=4)
    found = chunks(site, sync_id, 0, chunk_bytes=100)
    sizes = [[block.plain_size for block in chunk.blocks] for chunk, _ in found]
    assert all(sum(blocks) <= 100 for blocks in sizes)
    assert max(map(len, sizes)) > 1
    (whole,) = chunks(site, sync_id, 0, chunk_bytes=1 << 20)
    assert len(whole[0].blocks) == sum(map(len, sizes)) == 6 + 1 + 3


def test_a_frame_holds_no_more_rows_than_a_sink_takes(site: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_blocks, "MAX_ROWS", 10)
    sync_id = published(site, PARTS, block_rows=4)
    found = [sum(block.rows for block in chunk.blocks) for chunk, _ in chunks(site, sync_id, 0, chunk_bytes=1 << 20)]
    assert max(found) <= 10
    assert sum(found) == len(ROWS)


def test_a_transfer_that_continues_within_a_block_begins_with_that_block(site: Engine) -> None:
    sync_id = published(site, PARTS, block_rows=10)
    assert [chunks(site, sync_id, row, 1)[0][0].first_row for row in (0, 9, 10, 15, 22, 23, 24, 30)] == [
        1, 1, 11, 11, 21, 24, 25, 25
    ]  # fmt: skip


def test_stored_blocks_are_sent_unchanged(site: Engine) -> None:
    payload = b"the same words again and again " * 1_000
    (sync_id,) = request(site, "tokyo")
    attempt = claim(site)
    publish(site, attempt, write_part(site, attempt, 0, [payload]))
    frames = list(frames_of(site, by_id(site, sync_id)))
    assert [size for _, _, size in frames][1] < 1_000
    (block,) = frames[1][0].snapshot_chunk.blocks
    assert block.codec == pb.ZSTD
    assert list(decode_snapshot(block, 1 << 20).payloads) == [payload]


def test_a_transmitter_makes_blocks_of_the_configured_number_of_rows(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    with quick(site, Provider(numbered(7)), block_rows=3):
        found = ready(site, sync_id)
    frames = list(frames_of(site, found))
    assert [sum(block.rows for block in frame.snapshot_chunk.blocks) for frame, _, _ in frames] == [0, 3, 3, 1, 0]
    with pytest.raises(ConfigurationError, match="block_rows must be above 0, not 0"):
        quick(site, Provider(numbered(7)), block_rows=0)


def test_the_end_names_the_tick_of_the_base_also_where_a_new_branch_has_none_yet(site: Engine) -> None:
    lease, log = leases.acquire(site, "server", "me", ttl=600), open_log(site, TickLimits())
    assert lease is not None
    with Session(site) as session, session.begin():
        RoutingQueueSenderClient("policy").transmit_log_entry_message(session, b"x", ["tokyo"])
    taken = log.take_tick(lease, log.bounds().newest)
    assert taken is not None
    tick = taken.tick
    with writing(site) as connection:
        last = newest_branch(connection)
        branch = begin_branch(connection, last.number + 1, tick.end_seq, last.incarnation, "1:1:")
    (sync_id,) = request(site, "tokyo")
    with quick(site, Provider(numbered(1))):
        found = ready(site, sync_id)
    assert (found.base.branch, found.base.seq) == (branch, tick.end_seq)
    *_, (end, _, _) = frames_of(site, found)
    assert (end.snapshot_end.header.branch, end.snapshot_end.header.uid) == (tick.branch, tick.uid)
    log.close()


@pytest.mark.parametrize("lost_row", [2, 3])
def test_a_snapshot_with_missing_rows_is_replaced(site: Engine, lost_row: int) -> None:
    (sync_id,) = request(site, "tokyo")
    attempt = claim(site)
    publish(site, attempt, write_part(site, attempt, 0, [b"1", b"2", b"3"], limits=WriteLimits(block_rows=1)))
    with writing(site) as connection:
        connection.execute(delete(snapshot_blocks).where(snapshot_blocks.c.last_ord == lost_row))
    with pytest.raises(SnapshotCancelledError, match="no longer kept"):
        list(frames_of(site, by_id(site, sync_id)))
    assert newest(site).reason == f"rows of snapshot {sync_id} are missing where they are stored"


def test_a_cancelled_snapshot_is_not_replaced(site: Engine) -> None:
    sync_id = published(site, PARTS, block_rows=4)
    found = by_id(site, sync_id)
    with writing(site) as connection:
        assert send_snapshot.cancel_exactly(connection, sync_id, "not wanted")
    with pytest.raises(SnapshotCancelledError, match="is cancelled"):
        list(frames_of(site, found))
    assert newest(site).sync_id == sync_id
