"""The inbox rule for log entries, case by case."""

import itertools
from dataclasses import replace

import pytest

from queues.positions import ORIGIN, Position
from queues.receive.marks import ReceiveState
from queues.wire.replication_pb2 import Refusal
from sink.protocol.log_rules import (
    FrameTick,
    Nothing,
    Refuse,
    RollbackTo,
    Speaker,
    TakeBatch,
    admit,
    decide_batch,
    decide_rollback,
    follows,
)

#: All entries up to 20 were received, and a tick ends at 20.
AT_20 = ReceiveState(received=Position("b1", 20), boundary_seq=20)
#: Three rows were received of the tick that began at 20.
OPEN_AT_20 = ReceiveState(received=Position("b1", 23), boundary_seq=20)


def at(seq, branch="b1", cut=""):
    return Position(branch, seq, cut)


def group(start, end, rows=0, *, first_index=0, complete=True, branch="b1"):
    return FrameTick(branch, start, end, rows, first_index, complete)


def decide(marks, start, *groups, cut_passed=False):
    return decide_batch(marks, start, groups, cut_passed=cut_passed)


def reached(decision):
    assert isinstance(decision, TakeBatch), decision
    return decision.marks.received.seq, decision.marks.boundary_seq, [step.skip for step in decision.steps]


def refused(decision):
    assert isinstance(decision, Refuse), decision
    return decision.kind


# --- admission --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("generation", "sink", "negotiated", "kind"),
    [
        (4, "tokyo", True, Refusal.STALE_LEADER),
        (4, "lima", False, Refusal.STALE_LEADER),
        (5, "lima", True, Refusal.WRONG_SITE),
        (5, "lima", False, Refusal.WRONG_SITE),
        (5, "tokyo", False, Refusal.NO_STREAM_BEGIN),
    ],
)
def test_a_refusal_names_the_first_check_that_fails(generation, sink, negotiated, kind):
    marks = replace(AT_20, generation=5)
    refuse = admit(marks, Speaker("paris", sink, "policy", generation), "tokyo", negotiated=negotiated)
    assert refused(refuse) == kind


@pytest.mark.parametrize("generation", [5, 6])
def test_the_present_generation_and_a_newer_one_are_admitted(generation):
    marks = replace(AT_20, generation=5)
    assert admit(marks, Speaker("paris", "tokyo", "policy", generation), "tokyo", negotiated=True) is None


# --- whole ticks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "groups", "expected"),
    [
        (20, [], (20, 20, [])),
        (20, [group(20, 30, 10)], (30, 30, [0])),
        (20, [group(20, 30, 4)], (30, 30, [0])),
        (20, [group(20, 30)], (30, 30, [0])),
        (20, [group(20, 30, 1), group(30, 35, 2)], (35, 35, [0, 0])),
        (20, [group(25, 30, 1)], (30, 30, [0])),
        (20, [group(20, 25, 1), group(30, 35, 2)], (35, 35, [0, 0])),
        (10, [group(10, 20, 3)], (20, 20, [3])),
        (10, [group(10, 20, 3), group(20, 30, 4)], (30, 30, [3, 0])),
        (5, [group(5, 10, 1), group(10, 20, 0)], (20, 20, [1, 0])),
        (0, [], (20, 20, [])),
    ],
    ids=[
        "nothing",
        "exactly next",
        "fewer rows than numbers",
        "a tick without rows for this session moves the position",
        "two ticks",
        "quiet ticks are omitted before the first",
        "quiet ticks are omitted in between",
        "known",
        "known and next",
        "all known",
        "old and empty",
    ],
)
def test_known_ticks_are_skipped_and_the_next_ones_are_taken(start, groups, expected):
    assert reached(decide(AT_20, at(start), *groups)) == expected


def test_taken_and_skipped_rows_are_counted():
    marks = decide(AT_20, at(10), group(10, 20, 3), group(20, 30, 4)).marks
    assert (marks.entries_total, marks.duplicates_total) == (4, 3)


def test_a_batch_that_begins_after_the_next_entry_is_a_gap():
    assert refused(decide(AT_20, at(21), group(21, 30, 1))) == Refusal.GAP


@pytest.mark.parametrize(
    "groups",
    [
        [group(20, 30, 11)],
        [group(20, 30, 3, first_index=8)],
        [group(30, 40, 1), group(20, 30, 1)],
        [group(20, 30, 1), group(25, 40, 1)],
        [group(20, 30, 1), group(20, 30, 1)],
    ],
    ids=["more rows than numbers", "part beyond the end", "out of order", "overlapping", "twice in one batch"],
)
def test_a_batch_that_contradicts_itself_is_corrupt(groups):
    assert refused(decide(AT_20, at(20), *groups)) == Refusal.CORRUPT


def test_a_known_tick_with_another_end_belongs_to_another_history():
    assert refused(decide(AT_20, at(10), group(10, 25, 1))) == Refusal.NO_STREAM_BEGIN


# --- a tick in parts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("marks", "start", "groups", "expected"),
    [
        (AT_20, 20, [group(20, 30, 3, complete=False)], (23, 20, [0])),
        (OPEN_AT_20, 23, [group(20, 30, 2, first_index=3, complete=False)], (25, 20, [0])),
        (OPEN_AT_20, 20, [group(20, 30, 2, first_index=3, complete=False)], (25, 20, [0])),
        (OPEN_AT_20, 23, [group(20, 30, 2, first_index=3)], (30, 30, [0])),
        (OPEN_AT_20, 23, [group(20, 30, first_index=3)], (30, 30, [0])),
        (OPEN_AT_20, 20, [group(20, 30, 5)], (30, 30, [3])),
        (OPEN_AT_20, 20, [group(20, 30, 3)], (30, 30, [3])),
        (OPEN_AT_20, 20, [group(20, 30, 2, complete=False)], (23, 20, [2])),
        (OPEN_AT_20, 20, [group(20, 30, 2, first_index=2, complete=False)], (24, 20, [1])),
        (OPEN_AT_20, 20, [group(20, 30, 3, complete=False), group(20, 30, 1, first_index=3)], (30, 30, [3, 0])),
        (OPEN_AT_20, 10, [group(10, 20, 1), group(20, 30, 4)], (30, 30, [1, 3])),
        (AT_20, 10, [group(10, 20, 1, first_index=4)], (20, 20, [1])),
        (AT_20, 20, [group(20, 30, 10, complete=False)], (30, 30, [0])),
    ],
    ids=[
        "first part",
        "next part",
        "next part, from the boundary",
        "last part",
        "last part without rows",
        "whole again",
        "whole again, all rows known",
        "part known",
        "part overlaps",
        "two parts in one batch",
        "known tick before it",
        "part of a known tick",
        "all numbers used, complete by that",
    ],
)
def test_parts_of_a_tick_are_trimmed_to_the_row(marks, start, groups, expected):
    assert reached(decide(marks, at(start), *groups)) == expected


def test_the_last_part_closes_a_tick_that_has_used_all_its_numbers():
    marks = ReceiveState(received=at(30), boundary_seq=20)
    decision = decide(marks, at(30), group(20, 30, first_index=10))
    assert reached(decision) == (30, 30, [0])


@pytest.mark.parametrize(
    ("marks", "groups", "begins"),
    [
        (AT_20, [group(20, 30, 1)], [True]),
        (AT_20, [group(20, 30)], [True]),
        (AT_20, [group(20, 30, 2, complete=False), group(20, 30, 1, first_index=2)], [True, False]),
        (AT_20, [group(20, 30, 0, complete=False), group(20, 30, 1)], [False, True]),
        (OPEN_AT_20, [group(20, 30, 4)], [False]),
        (OPEN_AT_20, [group(20, 30, 1, first_index=3), group(30, 40, 1)], [False, True]),
    ],
    ids=["whole", "quiet", "in parts", "an empty part", "open already", "open already and the next"],
)
def test_a_tick_begins_with_its_first_group_that_is_taken(marks, groups, begins):
    assert [step.begins for step in decide(marks, at(20), *groups).steps] == begins


def test_a_known_tick_does_not_begin_again():
    assert not decide(AT_20, at(10), group(10, 20, 3)).steps[0].begins


@pytest.mark.parametrize(
    "groups",
    [
        [group(20, 30, 1, first_index=4)],
        [group(30, 40, 1)],
        [group(20, 30, 1, complete=False), group(30, 40, 1)],
        [group(25, 30, 1, first_index=1)],
    ],
    ids=["part missing", "next tick before the last part", "tick left open", "first part missing"],
)
def test_missing_rows_of_a_tick_are_a_gap(groups):
    assert refused(decide(OPEN_AT_20, at(20), *groups)) == Refusal.GAP


def test_a_tick_with_fewer_rows_than_before_is_corrupt():
    assert refused(decide(OPEN_AT_20, at(20), group(20, 30, 2))) == Refusal.CORRUPT


# --- histories --------------------------------------------------------------------------------------------------


def test_an_empty_sink_begins_at_the_position_of_the_batch():
    decision = decide(ReceiveState(), at(500), group(500, 510, 2))
    assert reached(decision) == (510, 510, [0])
    assert decision.marks.received.branch == "b1"


@pytest.mark.parametrize("start", [at(20), at(20, "b2")])
def test_a_new_branch_continues_at_the_end_of_a_tick(start):
    decision = decide(AT_20, start, group(20, 30, 2, branch="b2"))
    assert decision.marks.received == at(30, "b2")


def test_a_batch_may_hold_the_end_of_one_branch_and_the_start_of_the_next():
    decision = decide(AT_20, at(10), group(10, 20, 1), group(20, 30, 1), group(30, 40, 1, branch="b2"))
    assert decision.marks.received == at(40, "b2")


@pytest.mark.parametrize(
    ("marks", "start", "groups"),
    [
        (AT_20, at(15, "b2"), [group(15, 20, 1, branch="b2")]),
        (AT_20, at(10), [group(10, 15, 1), group(15, 30, 1, branch="b2")]),
        (AT_20, at(10), [group(10, 15, 1), group(15, 20, 1, branch="b2")]),
        (OPEN_AT_20, at(23, "b2"), []),
        (OPEN_AT_20, at(20), [group(20, 30, 1, branch="b2")]),
    ],
    ids=[
        "foreign start",
        "the branch leaves ours earlier",
        "the branch left ours and ends where we are",
        "in an open tick",
        "a tick that is open here",
    ],
)
def test_another_branch_in_the_middle_must_be_negotiated(marks, start, groups):
    assert refused(decide(marks, start, *groups)) == Refusal.NO_STREAM_BEGIN


# --- cut --------------------------------------------------------------------------------------------------------

CUT_AT_20 = replace(AT_20, received=at(20, cut="id/25"))


@pytest.mark.parametrize(
    ("start", "groups", "passed", "cut"),
    [
        (at(20, cut="id/25"), [group(20, 30, 1)], False, "id/25"),
        (at(20, cut="id/25"), [group(20, 30, 1)], True, ""),
        (at(20, cut="id/25"), [group(20, 30, 1, complete=False)], True, "id/25"),
        (at(20, cut="id/11"), [group(20, 30, 1)], True, "id/25"),
    ],
    ids=["not passed", "passed", "in the middle of a tick", "another cut was passed"],
)
def test_the_cut_is_removed_when_the_batch_has_passed_it(start, groups, passed, cut):
    assert decide(CUT_AT_20, start, *groups, cut_passed=passed).marks.received.cut == cut


def test_an_empty_sink_takes_over_the_branch_and_the_cut_of_the_batch():
    decision = decide(ReceiveState(), at(20, cut="id/25"), group(20, 23, 1, complete=False))
    assert decision.marks.received == at(21, cut="id/25")


# --- rollback ---------------------------------------------------------------------------------------------------


def rollback(marks, target, applied=0, **facts):
    return decide_rollback(marks, target, applied, **facts)


def test_a_rollback_goes_back_to_a_known_header():
    decision = rollback(AT_20, at(10), 10, known=True)
    assert decision == RollbackTo(replace(AT_20, received=at(10), boundary_seq=10))


def test_a_rollback_may_lead_into_an_older_branch():
    decision = rollback(replace(AT_20, received=at(20, "b2")), at(10, "b1"), known=True)
    assert decision.marks.received == at(10, "b1")


def test_an_open_tick_can_always_be_rolled_back():
    assert rollback(OPEN_AT_20, at(20), 20, known=False).marks.received == at(20)


def test_a_rollback_to_the_present_position_changes_nothing():
    assert rollback(AT_20, at(20), 20, known=False) == Nothing()
    assert rollback(ReceiveState(), ORIGIN, known=False) == Nothing()


@pytest.mark.parametrize("target", [at(10), at(30), at(20, "b9")])
def test_a_rollback_to_an_unknown_header_is_refused(target):
    assert refused(rollback(AT_20, target, known=False)) == Refusal.NO_STREAM_BEGIN


def test_applied_entries_are_not_rolled_back():
    assert refused(rollback(AT_20, at(10), 11, known=True)) == Refusal.CONSUMED


def test_applied_entries_are_rolled_back_if_the_subscriber_can_undo_them():
    assert rollback(AT_20, at(10), 11, known=True, undoes=True).marks.received == at(10)
    assert refused(rollback(AT_20, at(10), 11, known=False, undoes=True)) == Refusal.NO_STREAM_BEGIN


# --- the valid stream -----------------------------------------------------------------------------------------------


def test_a_frame_follows_only_the_version_that_its_stream_has_left() -> None:
    numbers = [None, *range(4)]
    for version, number, left, generation in itertools.product(range(4), numbers, numbers, range(3)):
        before = number if left is None else left
        expected = number is not None and before == version and generation == 1
        assert follows(ReceiveState(generation=1), version, generation, number, left) is expected
