"""Visibility, ticks and tokens: which rows a tick covers, and texts that are parsed back."""

import itertools

import pytest

from queues.errors import InvalidPositionError
from queues.positions import PgSnapshot, PositionToken, Tick, Visibility, first_covering

#: PostgreSQL transactions 3, 4 and 7 run; 8 has not begun.
WINDOW = PgSnapshot(3, 8, frozenset({3, 4, 7}))


def test_a_snapshot_sees_the_transactions_that_had_ended():
    assert [xid for xid in range(12) if WINDOW.sees(xid)] == [0, 1, 2, 5, 6]


@pytest.mark.parametrize("text", ["3:8:3,4,7", "3:3:", "10:20:12"])
def test_a_snapshot_is_parsed_and_printed(text: str):
    assert str(PgSnapshot.parse(text)) == text


def test_the_parts_of_a_snapshot_are_its_bounds_and_its_running_transactions():
    assert PgSnapshot.parse("3:8:4,3,7") == WINDOW


@pytest.mark.parametrize("text", ["", "3:8", "3:8:x", "a:8:", "3:b:", "3:8:4:5"])
def test_a_malformed_snapshot_is_refused_with_its_text(text: str):
    with pytest.raises(InvalidPositionError) as raised:
        PgSnapshot.parse(text)
    assert str(raised.value) == f"{text!r} is not a transaction snapshot (xmin:xmax:list)"


def test_ids_up_to_the_high_mark_are_covered():
    mark = Visibility(high=5)
    assert [number for number in range(8) if mark.covers(number, order=99)] == [0, 1, 2, 3, 4, 5]
    assert mark.surely_covers(5)
    assert not mark.surely_covers(6)


def test_rows_of_visible_transactions_are_covered():
    mark = Visibility(window=WINDOW)
    assert [xid for xid in range(12) if mark.covers(xid, order=99)] == [0, 1, 2, 5, 6]
    assert [xid for xid in range(12) if mark.surely_covers(xid)] == [0, 1, 2, 5, 6]


def test_a_tick_of_a_backlog_covers_its_base_and_the_rows_up_to_its_last_commit():
    mark = Visibility(window=WINDOW, base=PgSnapshot(2, 3, frozenset({2})), upto=50)
    covered = {(xid, order) for xid in range(9) for order in (49, 50, 51) if mark.covers(xid, order)}
    before = {(xid, order) for xid in (0, 1) for order in (49, 50, 51)}
    assert covered == before | {(xid, order) for xid in (2, 5, 6) for order in (49, 50)}
    assert [xid for xid in range(9) if mark.surely_covers(xid)] == [0, 1]


@pytest.mark.parametrize(("base", "upto"), [(None, 50), (PgSnapshot(2, 3, frozenset()), None)])
def test_a_tick_with_half_of_a_backlog_s_mark_covers_its_whole_window(base: PgSnapshot | None, upto: int | None):
    assert Visibility(window=WINDOW, base=base, upto=upto).covers(6, order=99)


@pytest.mark.parametrize(
    ("mark", "text"),
    [
        (Visibility(), "id/0"),
        (Visibility(high=7), "id/7"),
        (Visibility(window=WINDOW), "xid/3:8:3,4,7//"),
        (Visibility(window=WINDOW, base=PgSnapshot(1, 2, frozenset()), upto=9), "xid/3:8:3,4,7/1:2:/9"),
        (Visibility(window=WINDOW, upto=0), "xid/3:8:3,4,7//0"),
    ],
)
def test_a_mark_is_parsed_and_printed(mark: Visibility, text: str):
    assert str(mark) == text
    assert Visibility.parse(text) == mark


@pytest.mark.parametrize(
    "text", ["", "id", "id/", "id/x", "xid/3:8:", "xid/3:8:/", "xid/3:8:///", "xid///", "xid/3:8://x"]
)
def test_a_malformed_mark_is_refused(text: str):
    with pytest.raises(InvalidPositionError) as raised:
        Visibility.parse(text)
    assert str(raised.value).endswith(("is not the mark of a tick", "is not a transaction snapshot (xmin:xmax:list)"))


def test_the_first_mark_that_covers_a_row_is_found():
    marks = [Visibility(high=high) for high in (2, 4, 6)]
    found = [first_covering(marks, number, order=number) for number in range(8)]
    assert found == [0, 0, 0, 1, 1, 2, 2, None]
    assert first_covering([], 1, order=1) is None


def test_the_first_mark_of_a_backlog_that_covers_a_row_depends_on_its_commit():
    marks = [Visibility(window=WINDOW, base=PgSnapshot(2, 2, frozenset()), upto=upto) for upto in (10, 20)]
    assert [first_covering(marks, 2, order) for order in (10, 11, 20, 21)] == [0, 1, 1, None]


def test_a_tick_counts_its_rows():
    tick = Tick(1, 2, "b1", 10, 13, 0, is_large=False, mark="id/13", created_us=0)
    assert tick.rows == 3


def test_a_token_is_parsed_and_printed():
    token = PositionToken("paris", "policy", "b1", 42)
    assert str(token) == "paris/policy/b1/42"
    assert PositionToken.parse("paris/policy/b1/42") == token
    assert token


WRONG = [
    "",
    "paris/policy/b1",
    "paris/policy/b1/42/1",
    "paris/policy/b1/-1",
    "paris/policy/b1/x",
    f"paris/policy/b1/{'9' * 5_000}",
    "paris/policy/b1/42/00000002/1",
]


@pytest.mark.parametrize("text", [*WRONG, *("/".join("" if n == gap else "1" for n in range(4)) for gap in range(4))])
def test_a_malformed_token_is_refused(text: str):
    with pytest.raises(InvalidPositionError) as raised:
        PositionToken.parse(text)
    assert str(raised.value) == f"{text!r} is not a position token (<site>/<client>/<branch>/<number>[/<timeline>])"


def test_every_mark_of_a_growing_window_covers_all_earlier_ones():
    steps = [PgSnapshot.parse(text) for text in ("1:1:", "1:3:1", "1:5:1,4", "4:6:4", "6:6:")]
    for earlier, later in itertools.pairwise(map(Visibility, [0] * 5, steps)):
        assert [x for x in range(8) if earlier.covers(x, 0) and not later.covers(x, 0)] == []
