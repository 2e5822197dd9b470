"""The checksum of rows does not depend on how the rows are grouped."""

from hypothesis import given
from hypothesis import strategies as st

from queues.checksum import combine, rows_checksum

ROWS = st.lists(st.tuples(st.binary(max_size=20), st.none() | st.text(min_size=1, max_size=5)), max_size=20)


@given(ROWS, st.randoms())
def test_the_checksum_does_not_depend_on_the_order_or_grouping_of_rows(rows, chance):
    sums = [rows_checksum([row]) for row in rows]
    whole = combine(*sums)
    chance.shuffle(sums)
    half = len(sums) // 2
    assert combine(combine(*sums[:half]), combine(*sums[half:])) == whole
    assert 0 <= whole < 2**63


@given(ROWS)
def test_a_doubled_row_changes_the_checksum(rows):
    row = rows_checksum([(b"x", None)])
    sums = [rows_checksum([row]) for row in rows]
    assert combine(*sums, row) != combine(*sums, row, row)


def test_exchanging_key_and_payload_changes_the_checksum():
    rows = (b"bc", "a"), (b"c", "ab"), (b"abc", None)
    assert len({rows_checksum([row]) for row in rows}) == 3


def test_an_empty_key_has_the_checksum_of_no_key():
    assert rows_checksum([(b"x", "")]) == rows_checksum([(b"x", None)])
