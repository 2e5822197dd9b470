"""Rows of a snapshot: visible all at once, readable from any row on, collected in the end."""

import pytest
from sqlalchemy import Engine, delete, update

from queues import send_snapshot
from queues.checksum import rows_checksum
from queues.database.tables.log import log_head
from queues.database.tables.snapshots import snapshot_blocks as stored_blocks
from queues.database.transactions import reading, writing
from queues.errors import CorruptFrameError, PayloadTooLargeError, SnapshotCancelledError, SnapshotFailedError
from queues.positions import Position
from queues.send_snapshot import attempts as snapshot_attempts
from queues.send_snapshot.block_packer import WriteLimits
from queues.send_snapshot.blocks import MAX_BLOCKS
from queues.send_snapshot.states import Part
from queues.send_snapshot.writer import PartWriter
from tests.lr_client.snapshot.providing import (
    TOKYO,
    by_id,
    claim,
    damage,
    newest,
    payloads_of,
    publish,
    request,
    rows_of,
    stored,
    write_part,
)


def collect(engine: Engine, **options: float) -> list[int]:
    """Collect garbage until none is left; return the number of rows that each step deleted."""
    steps = []
    while True:
        with writing(engine) as connection:
            steps.append(send_snapshot.collect_garbage(connection, **options))  # type: ignore[arg-type]
        if not steps[-1]:
            return steps


def test_no_row_is_visible_before_the_snapshot_is_published_and_then_all_are(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    attempt = claim(site)
    writers = [write_part(site, attempt, part, [b"%d" % part]) for part in (1, 0)]
    with reading(site) as connection, pytest.raises(SnapshotCancelledError, match="building"):
        send_snapshot.read_blocks(connection, sync_id, after_row=0, limit_bytes=1)
    publish(site, attempt, *writers, base=Position("b", 7, "id/9"))
    assert payloads_of(site, sync_id) == [b"0", b"1"]
    found = newest(site)
    assert (found.state, found.base, found.rows, found.bytes) == ("ready", Position("b", 7, "id/9"), 2, 2)
    assert found.checksum == rows_checksum([(b"0", None), (b"1", None)])


@pytest.mark.parametrize("limit_bytes", [1, 25, 60, 1000])
@pytest.mark.parametrize("block_rows", [1, 2, 3, 1000])
def test_rows_are_read_in_order_from_any_row_on(site: Engine, block_rows: int, limit_bytes: int) -> None:
    (sync_id,) = request(site, "tokyo")
    attempt = claim(site)
    limits = WriteLimits(batch_rows=5, block_rows=block_rows)
    sizes = {0: 4, 1: 0, 5: 1, 6: 7, 9: 3}
    wanted = [b"%d-%d" % (part, n) + b"." * n for part, size in sizes.items() for n in range(size)]
    publish(
        site,
        attempt,
        *(
            write_part(site, attempt, part, [b"%d-%d" % (part, n) + b"." * n for n in range(size)], limits=limits)
            for part, size in sizes.items()
        ),
    )
    for start in range(len(wanted) + 1):
        rows = rows_of(site, sync_id, after_row=start, limit_bytes=limit_bytes)
        assert [(row.row_no, row.payload) for row in rows] == list(enumerate(wanted, 1))[start:]


def blocks_after(engine: Engine, sync_id: str, after_row: int, limit_bytes: int) -> list[send_snapshot.StoredBlock]:
    with reading(engine) as connection:
        return send_snapshot.read_blocks(connection, sync_id, after_row=after_row, limit_bytes=limit_bytes)


def in_blocks(engine: Engine, payloads: list[bytes], block_rows: int) -> str:
    """Publish *payloads* in two parts of the same rows, in blocks of *block_rows*."""
    (sync_id,) = request(engine, "tokyo")
    attempt = claim(engine)
    limits = WriteLimits(block_rows=block_rows)
    publish(engine, attempt, *(write_part(engine, attempt, part, payloads, limits=limits) for part in (0, 1)))
    return sync_id


def test_a_read_returns_blocks_up_to_its_limit_but_at_least_one(site: Engine) -> None:
    sync_id = in_blocks(site, [b"x" * 10, b"y" * 1000, b"z" * 10], block_rows=1)
    found = [[block.first_row for block in blocks_after(site, sync_id, row, limit_bytes=50)] for row in range(6)]
    assert found == [[1], [2], [3, 4], [4], [5], [6]]
    assert [block.first_row for block in blocks_after(site, sync_id, 0, limit_bytes=5_000)] == [1, 2, 3, 4, 5, 6]


def test_a_read_begins_with_the_block_of_the_requested_row(site: Engine) -> None:
    sync_id = in_blocks(site, [b"1", b"2", b"3", b"4", b"5"], block_rows=3)
    first = [blocks_after(site, sync_id, row, limit_bytes=1)[0] for row in range(10)]
    bounds = [(block.first_row, block.last_row) for block in first]
    assert bounds == [(1, 3)] * 3 + [(4, 5)] * 2 + [(6, 8)] * 3 + [(9, 10)] * 2


def test_a_read_returns_a_bounded_number_of_blocks(site: Engine) -> None:
    sync_id = in_blocks(site, [b""] * 40, block_rows=1)
    assert len(blocks_after(site, sync_id, 0, limit_bytes=1 << 30)) == MAX_BLOCKS == 64
    assert len(rows_of(site, sync_id, limit_bytes=1 << 30)) == 80


@pytest.mark.parametrize("lost", [1, 2, 3, 4])
def test_a_missing_block_raises_an_error(site: Engine, lost: int) -> None:
    sync_id = in_blocks(site, [b"1", b"2", b"3", b"4"], block_rows=1)
    gone = stored_blocks.c.part == 1, stored_blocks.c.last_ord == lost
    with writing(site) as connection:
        connection.execute(delete(stored_blocks).where(*gone))
    for limit_bytes in (1, 1000):
        with pytest.raises(SnapshotCancelledError, match="no longer kept"):
            rows_of(site, sync_id, limit_bytes=limit_bytes)


@pytest.mark.parametrize(
    ("column", "value"), [("block", b"nonsense"), ("block", b""), ("plain_size", 1), ("block", bytes(100))]
)
def test_a_damaged_block_raises_an_error_that_names_its_rows(site: Engine, column: str, value: object) -> None:
    sync_id = in_blocks(site, [b"1", b"2", b"3"], block_rows=2)
    with writing(site) as connection:
        connection.execute(update(stored_blocks).where(stored_blocks.c.last_ord == 2).values({column: value}))
    with pytest.raises(CorruptFrameError, match=f"rows 1 to 2 of snapshot {sync_id} are damaged"):
        rows_of(site, sync_id)


@pytest.mark.parametrize("size", [1, 5_000], ids=["plain", "packed"])
def test_a_flipped_bit_in_a_stored_row_is_found_at_the_source(site: Engine, size: int) -> None:
    sync_id = in_blocks(site, [b"1" * size, b"2" * size, b"3" * size], block_rows=2)
    damage(site)
    with pytest.raises(CorruptFrameError, match=f"rows 1 to 2 of snapshot {sync_id} are damaged"):
        rows_of(site, sync_id)


def test_an_empty_snapshot_is_ready_and_has_no_rows(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    publish(site, claim(site))
    assert payloads_of(site, sync_id) == []
    assert (newest(site).state, newest(site).rows, newest(site).checksum) == ("ready", 0, 0)


def test_an_incomplete_part_is_not_published(site: Engine) -> None:
    request(site, "tokyo")
    attempt = claim(site)
    written = write_part(site, attempt, 0, [b"1", b"2"]).written
    torn = Part(written.part, written.attempt, written.rows + 1, written.bytes, written.checksum)
    with pytest.raises(SnapshotFailedError, match="part 0"), writing(site) as connection:
        snapshot_attempts.publish(connection, attempt, base=Position("b", 0), parts=[torn])
    assert newest(site).state == "building"


def test_only_the_published_try_of_a_part_is_visible(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    attempt = claim(site)
    write_part(site, attempt, 0, [b"twin 1", b"twin 2"], chance=1)
    publish(site, attempt, write_part(site, attempt, 0, [b"kept"], chance=2))
    assert payloads_of(site, sync_id) == [b"kept"]
    assert sum(collect(site)) == 2
    assert payloads_of(site, sync_id) == [b"kept"]


def test_rows_of_dead_attempts_are_collected_during_the_next_attempt(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    dead = claim(site, owner="dead")
    write_part(site, dead, 0, [b"dead"] * 5, limits=WriteLimits(block_rows=2))
    assert collect(site) == [0]
    attempt = claim(site, owner="alive")
    writer = write_part(site, attempt, 0, [b"alive"] * 3)
    assert collect(site, limit_rows=2) == [2, 2, 1, 0]
    publish(site, attempt, writer)
    assert payloads_of(site, sync_id) == [b"alive"] * 3


def test_rows_of_a_failed_attempt_are_collected_before_the_next_one(site: Engine) -> None:
    request(site, "tokyo")
    attempt = claim(site)
    write_part(site, attempt, 0, [b"lost"] * 3)
    with writing(site) as connection:
        snapshot_attempts.fail(connection, attempt, "it broke", retry_after=0)
    assert sum(collect(site)) == 3


def test_rows_of_an_applied_snapshot_are_collected_and_its_status_is_kept(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    attempt = claim(site)
    publish(site, attempt, write_part(site, attempt, 0, [b"1", b"2"]))
    with writing(site) as connection:
        send_snapshot.mark_applied(connection, sync_id)
    assert sum(collect(site, keep=-1)) == 2
    assert (stored(site), by_id(site, sync_id).state) == (0, "applied")
    with reading(site) as connection, pytest.raises(SnapshotCancelledError):
        send_snapshot.read_blocks(connection, sync_id, after_row=0, limit_bytes=1)


def test_old_statuses_are_collected_except_the_newest_of_each_site(site: Engine) -> None:
    asked = [request(site, "tokyo")[0] for _ in range(3)]
    collect(site, keep=-1)
    with reading(site) as connection:
        assert [found.sync_id for found in send_snapshot.listing(connection)] == [asked[-1]]
        assert send_snapshot.newest(connection, newest(site).client, TOKYO) is not None


def applied_at(site: Engine, base: Position) -> str:
    (sync_id,) = request(site, "tokyo")
    attempt = claim(site)
    publish(site, attempt, write_part(site, attempt, 0, [b"1"]), base=base)
    with writing(site) as connection:
        send_snapshot.mark_applied(connection, sync_id)
    return sync_id


def test_the_status_of_an_applied_snapshot_stays_while_the_log_goes_on_behind_it_or_the_site_may_stand_there(
    site: Engine,
) -> None:
    older, newest_applied = (applied_at(site, Position("b", 7, f"id/{number}")) for number in (8, 9))
    (newer,) = request(site, "tokyo")

    def kept(trimmed_seq: int) -> set[str]:
        with writing(site) as connection:
            connection.execute(update(log_head).values(trimmed_seq=trimmed_seq))
        collect(site, keep=-1)
        with reading(site) as connection:
            return {found.sync_id for found in send_snapshot.listing(connection)}

    assert kept(7) == {older, newest_applied, newer}
    assert kept(8) == {newest_applied, newer}


def test_a_payload_above_the_limit_is_refused(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    writer = PartWriter(
        site, sync_id, part=0, attempt=1, limits=WriteLimits(payload_bytes=10), in_batch=lambda _c, _p: None
    )
    with pytest.raises(PayloadTooLargeError):
        writer.add(b"x" * 11, None)


def test_a_batch_is_not_doubled_if_the_answer_to_its_commit_is_lost(site: Engine) -> None:
    """The commit succeeds and its answer is lost: the batch is written again, in the same place."""
    (sync_id,) = request(site, "tokyo")
    attempt = claim(site)
    writer = write_part(site, attempt, 0, [b"1", b"2"])
    again = write_part(site, attempt, 1, [], limits=WriteLimits(block_rows=2))
    again.add_many([b"3", b"4", b"5"], [None] * 3)
    blocks = again._batch.close()
    assert len(blocks) == 2
    after = Part(1, attempt.part_attempt(), 3, 3, 0)
    again._insert(blocks, after, again=False)
    again._insert(blocks, after, again=True)
    assert stored(site, sync_id) == 5
    publish(site, attempt, writer)
