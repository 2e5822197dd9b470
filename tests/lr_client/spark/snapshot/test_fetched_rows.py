"""A task of `lrq_table` fetches few rows while it does not know their size, and never many large ones."""

import pytest

from lr_client.spark.snapshot.table_format import next_rows

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("rows", "size", "expected"),
    [
        (8, 800, 32),
        (512, 51_200, 2_000),
        (2_000, 200_000, 2_000),
        (8, 8 * 16 * MIB, 1),
        (1, 16 * MIB, 1),
        (1, MIB, 4),
        (8, 0, 32),
    ],
)
def test_the_next_fetch_grows_slowly_and_has_at_most_four_mebibytes_of_such_rows(
    rows: int, size: int, expected: int
) -> None:
    assert next_rows(rows, size) == expected
