"""The columns of a snapshot batch are a sequence of rows."""

from queues.receive.log_blocks import ReceivedRow
from queues.receive.snapshot_batches import SnapshotRowColumns

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
