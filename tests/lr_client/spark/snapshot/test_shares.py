"""The rows of a table are divided into shares for Spark's tasks: each place once, and all shares about equal."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lr_client.spark.snapshot.shares import Piece, shares_of
from queues.database.cuts_port import StoredTable


def stored(name: str, extent: tuple[int, int] | None) -> StoredTable:
    return StoredTable(name, None, extent)


def shown(shares: Sequence[Sequence[Piece]]) -> list[list[tuple[str, int | None, int | None]]]:
    return [[(piece.table.name, piece.low, piece.high) for piece in share] for share in shares]


EXTENTS = st.tuples(st.integers(-5, 5), st.integers(0, 40)).map(lambda ends: (ends[0], ends[0] + ends[1]))
TABLES = st.lists(st.one_of(st.none(), EXTENTS), min_size=1, max_size=12).map(
    lambda extents: [stored(f"t{number}", extent) for number, extent in enumerate(extents)]
)


@given(TABLES, st.integers(1, 20))
def test_each_place_of_each_table_is_in_exactly_one_share(tables: list[StoredTable], most: int) -> None:
    pieces = [piece for share in shares_of(tables, most) for piece in share]
    for table in tables:
        own = [piece for piece in pieces if piece.table == table]
        assert (own[0].low, own[-1].high) == (None, None)
        for one, other in pairwise(own):
            assert one.high is not None
            assert one.high == other.low
        inner = [piece.low for piece in own[1:]]
        assert inner == sorted(set(inner))
        assert table.extent is not None or len(own) == 1


@given(TABLES, st.integers(1, 20))
def test_there_are_at_most_as_many_shares_as_asked_for_and_none_is_empty(tables: list[StoredTable], most: int) -> None:
    shares = shares_of(tables, most)
    assert 1 <= len(shares) <= most
    assert all(shares)


@given(TABLES, st.integers(1, 20))
def test_the_divided_shares_differ_by_one_place(tables: list[StoredTable], most: int) -> None:
    sizes = [size for share in shares_of(tables, most) if (size := sum(map(_places, share)))]
    assert not sizes or max(sizes) - min(sizes) <= 1


def _places(piece: Piece) -> int:
    if piece.table.extent is None:
        return 0
    low, high = piece.table.extent
    return (high if piece.high is None else piece.high) - (low if piece.low is None else piece.low)


@pytest.mark.parametrize(
    ("extents", "most", "expected"),
    [
        ([(0, 10)], 1, [[("t0", None, None)]]),
        ([(0, 10)], 2, [[("t0", None, 5)], [("t0", 5, None)]]),
        ([(3, 5)], 4, [[("t0", None, 4)], [("t0", 4, None)]]),
        ([(0, 0)], 4, [[("t0", None, None)]]),
        ([None], 4, [[("t0", None, None)]]),
        ([(0, 3), (0, 5)], 2, [[("t0", None, None), ("t1", None, 1)], [("t1", 1, None)]]),
        ([(0, 4), (0, 0), (0, 4)], 2, [[("t0", None, None)], [("t1", None, None), ("t2", None, None)]]),
        ([(0, 4), None], 2, [[("t1", None, None), ("t0", None, 2)], [("t0", 2, None)]]),
        ([None, None, None], 2, [[("t0", None, None), ("t2", None, None)], [("t1", None, None)]]),
        ([None, (0, 1)], 3, [[("t0", None, None)], [("t1", None, None)]]),
    ],
)
def test_shares_hold_pieces_of_several_tables(
    extents: list[tuple[int, int] | None], most: int, expected: list[list[tuple[str, int | None, int | None]]]
) -> None:
    tables = [stored(f"t{number}", extent) for number, extent in enumerate(extents)]
    assert shown(shares_of(tables, most)) == expected
