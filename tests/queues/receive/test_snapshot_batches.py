"""The columns of a snapshot batch are a sequence of rows."""

from sqlalchemy import Engine

from queues.blocks import SnapshotColumns, encode_snapshot
from queues.database.transactions import reading, writing
from queues.receive import snapshot_blocks
from queues.receive.batches import BatchLimits
from queues.receive.consumer_marks import IN_SNAPSHOT, Consumed
from queues.receive.received_rows import ReceivedRow
from queues.receive.snapshot_batches import SnapshotRowColumns, next_snapshot_rows

ROWS = [ReceivedRow(7, 7, 0, "a", b"1"), ReceivedRow(8, 8, 0, None, b"2"), ReceivedRow(9, 9, 0, "c", b"3")]
COLUMNS = SnapshotRowColumns(7, [b"1", b"2", b"3"], ["a", None, "c"])


def test_columns_are_the_same_rows_one_by_one_and_in_slices():
    assert list(COLUMNS) == ROWS
    assert [COLUMNS[place] for place in range(-3, 3)] == ROWS + ROWS
    assert COLUMNS[1:] == ROWS[1:]
    assert COLUMNS[::-1] == ROWS[::-1]
    assert len(COLUMNS) == len(ROWS)


def test_no_rows_are_false():
    assert not SnapshotRowColumns(1, [], [])


def test_a_batch_may_end_before_the_last_block_that_is_read_at_once(site: Engine) -> None:
    with writing(site) as connection:
        blocks = [encode_snapshot(SnapshotColumns([b"%d" % number], [None])) for number in (1, 2, 3)]
        snapshot_blocks.stage(connection, 1, "sync", 0, blocks)
    seen = Consumed(IN_SNAPSHOT, "sync", 0, "", 0)
    with reading(site) as connection:
        found = next_snapshot_rows(connection, 1, seen, 2, BatchLimits(10, 1_000))
    assert ([row.payload for row in found.rows], found.end) == ([b"1", b"2"], 2)
