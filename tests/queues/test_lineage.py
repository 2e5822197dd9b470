"""A token is found in the branches that hold its transaction, and is lost where a later branch lacks it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.errors import InvalidPositionError
from queues.lineage import BranchOrigin, Trace, inheritance, keeps, timeline_of, trace
from queues.positions import PgSnapshot, Position, PositionToken, parse_position

FIRST = BranchOrigin("first", "1")
#: Has the transactions of `first` up to 50, without 40.
SECOND = BranchOrigin("second", "2", "40:51:40")
THIRD = BranchOrigin("third", "3", "90:90:")
LOST = Trace((), is_lost=True)


def found(*holders: str) -> Trace:
    return Trace(holders, is_lost=False)


@pytest.mark.parametrize(
    ("branches", "token", "expected"),
    [
        # The ordinary case, and a source that tells nothing.
        ([FIRST], ("first", "", 30), found("first")),
        ([], ("first", "", 30), found("first")),
        ([SECOND], ("first", "", 30), found("first")),
        # Written after a promotion, while the old branch was still current.
        ([FIRST], ("first", "2", 30), found()),
        ([], ("first", "2", 30), found()),
        ([FIRST, SECOND], ("first", "2", 45), found("second")),
        ([FIRST, SECOND], ("first", "2", 60), found("second")),
        # Written before the promotion: kept, rolled back or not replicated, above all that was kept.
        ([FIRST, SECOND], ("first", "", 30), found("first", "second")),
        ([FIRST, SECOND], ("first", "1", 30), found("first", "second")),
        ([FIRST, SECOND], ("first", "", 40), LOST),
        ([FIRST, SECOND], ("first", "", 51), LOST),
        # Two promotions.
        ([FIRST, SECOND, THIRD], ("first", "", 30), found("first", "second", "third")),
        ([FIRST, SECOND, THIRD], ("first", "", 51), LOST),
        ([FIRST, SECOND, THIRD], ("second", "", 51), found("second", "third")),
        ([FIRST, SECOND, THIRD], ("second", "", 90), LOST),
        ([FIRST, SECOND, THIRD], ("second", "3", 90), found("third")),
        # A second promotion came before a server adopted the first one.
        ([FIRST, THIRD], ("first", "2", 30), LOST),
        # A branch of an earlier version of lrq knows nothing about its beginning.
        ([FIRST, SECOND._replace(inherited="")], ("first", "", 30), found("first")),
        ([FIRST, SECOND._replace(inherited="")], ("first", "", 60), found("first")),
        # Databases without timelines.
        ([BranchOrigin("first")], ("first", "", 30), found("first")),
    ],
)
def test_the_trace_of_a_token(branches: list[BranchOrigin], token: tuple[str, str, int], expected: Trace) -> None:
    assert trace(branches, *token) == expected


@given(
    running=st.sets(st.integers(1, 19)),
    survivors=st.sets(st.integers(1, 60)),
    limit=st.integers(0, 40),
)
def test_the_inheritance_is_all_that_was_kept_and_with_a_limit_nothing_else(
    running: set[int], survivors: set[int], limit: int
) -> None:
    last = PgSnapshot(min(running, default=20), 20, frozenset(running))
    kept = {xid for xid in range(1, 20) if last.sees(xid)} | survivors
    ordered = sorted(xid for xid in survivors if not last.sees(xid))
    unlimited = inheritance(last, ordered)
    assert {xid for xid in range(1, 80) if unlimited.sees(xid)} == kept
    limited = inheritance(last, ordered, limit)
    assert {xid for xid in range(1, 80) if limited.sees(xid)} <= kept
    assert len(limited.running) <= max(limit, len(running))
    assert all(limited.xmin <= xid < limited.xmax for xid in limited.running)


def test_a_gap_above_the_limit_ends_the_inheritance_before_the_gap() -> None:
    assert str(inheritance(PgSnapshot(10, 10, frozenset()), [12, 10_000_000], limit=100)) == "10:13:10,11"


@pytest.mark.parametrize(
    ("incarnation", "timeline"), [("7/00000002/5", "00000002"), ("0/0/5", ""), ("", ""), ("sqlite", "")]
)
def test_the_timeline_within_an_incarnation(incarnation: str, timeline: str) -> None:
    assert timeline_of(incarnation) == timeline


def test_the_text_of_a_token_is_the_earlier_one_except_across_a_promotion() -> None:
    ordinary = PositionToken("paris", "policy", "abc", 17)
    assert str(ordinary) == "paris/policy/abc/17"
    assert PositionToken.parse("paris/policy/abc/17") == ordinary
    across = PositionToken("paris", "policy", "abc", 17, "00000002")
    assert str(across) == "paris/policy/abc/17/00000002"
    assert PositionToken.parse(str(across)) == across


@pytest.mark.parametrize("text", ["paris/policy/abc", "paris/policy/abc/x", "paris/policy/abc/17/", "a/b/c/1/2/3"])
def test_another_text_is_no_token(text: str) -> None:
    with pytest.raises(InvalidPositionError, match="is not a position token"):
        PositionToken.parse(text)


@pytest.mark.parametrize(
    ("position", "is_kept"),
    [
        (Position("first", 0), True),
        (Position("first", 10), True),
        (Position("first", 11), False),
        (Position("second", 11), True),
        # The third branch began before all that the second had beyond its own beginning.
        (Position("second", 13), False),
        (Position("third", 99), True),
        (Position("another", 1), False),
    ],
)
def test_a_position_is_kept_unless_a_later_branch_begins_before_it(position: Position, is_kept: bool) -> None:
    assert keeps([("first", 0), ("second", 10), ("third", 12)], position) is is_kept


def test_a_position_is_read_as_it_is_written() -> None:
    assert parse_position(str(Position("b-1", 7))) == Position("b-1", 7)


@pytest.mark.parametrize("text", ["", "7", "@7", "b@", "b@-1", "b@x", "b@1@", "b@\u0661"])
def test_a_malformed_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidPositionError, match="is not a position"):
        parse_position(text)
