from hypothesis import given
from hypothesis import strategies as st

from queues.checksum import combine, row_checksum

ROWS = st.lists(st.tuples(st.binary(max_size=20), st.none() | st.text(min_size=1, max_size=5)), max_size=20)


@given(ROWS, st.randoms())
def test_the_order_and_the_grouping_of_rows_do_not_matter(rows, chance):
    sums = [row_checksum(*row) for row in rows]
    whole = combine(*sums)
    chance.shuffle(sums)
    half = len(sums) // 2
    assert combine(combine(*sums[:half]), combine(*sums[half:])) == whole
    assert 0 <= whole < 2**63


@given(ROWS)
def test_a_doubled_row_changes_the_sum(rows):
    row = row_checksum(b"x", None)
    sums = [row_checksum(*row) for row in rows]
    assert combine(*sums, row) != combine(*sums, row, row)


def test_a_key_and_a_payload_cannot_change_places():
    assert len({row_checksum(b"bc", "a"), row_checksum(b"c", "ab"), row_checksum(b"abc", None)}) == 3


def test_an_empty_key_counts_as_none():
    assert row_checksum(b"x", "") == row_checksum(b"x", None)
