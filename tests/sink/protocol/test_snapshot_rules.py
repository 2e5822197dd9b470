"""The inbox rule for snapshots, case by case."""

from dataclasses import replace

import pytest

from queues.positions import Position
from queues.receive.marks import ReceiveState, StagedRows
from queues.wire.replication_pb2 import Refusal
from sink.protocol.log_rules import Nothing, Refuse
from sink.protocol.snapshot_rules import (
    Publish,
    SnapshotClaim,
    Stage,
    StartAgain,
    TakeRows,
    decide_begin,
    decide_chunk,
    decide_end,
)

BASE = Position("b1", 40, "id/44")
#: Five rows of snapshot s2 are staged; s1 was published before, and log entries after it were received.
STAGED = ReceiveState(
    received=Position("b1", 30), boundary_seq=30, staging=StagedRows("s2", 5, 50, 500), sync_id="s1", sync_rows=9
)
CLAIM = SnapshotClaim("s2", BASE, 5, 50, 500)


def test_a_snapshot_begins_with_no_staged_rows():
    assert decide_begin(ReceiveState(), "s1") == Stage(ReceiveState(staging=StagedRows("s1")))


def test_a_newer_snapshot_replaces_the_staged_one():
    assert decide_begin(STAGED, "s3") == Stage(replace(STAGED, staging=StagedRows("s3")))


@pytest.mark.parametrize("sync_id", ["s2", "s1"], ids=["being staged", "published"])
def test_a_known_snapshot_does_not_begin_again(sync_id):
    assert decide_begin(STAGED, sync_id) == Nothing()


def test_a_snapshot_without_id_is_refused():
    assert decide_begin(STAGED, "").kind == Refusal.CORRUPT


@pytest.mark.parametrize(
    ("sync_id", "first_row", "rows", "decision"),
    [
        ("s2", 6, 3, TakeRows(0)),
        ("s2", 4, 3, TakeRows(2)),
        ("s2", 1, 6, TakeRows(5)),
        ("s2", 1, 5, Nothing()),
        ("s2", 3, 2, Nothing()),
        ("s2", 6, 0, Nothing()),
        ("s1", 1, 3, Nothing()),
    ],
    ids=["next", "overlapping", "from the start", "known", "known part", "empty", "of the published one"],
)
def test_rows_that_are_already_staged_are_skipped(sync_id, first_row, rows, decision):
    assert decide_chunk(STAGED, sync_id, first_row, rows) == decision


@pytest.mark.parametrize(
    ("marks", "sync_id", "first_row", "kind"),
    [
        (STAGED, "s2", 7, Refusal.GAP),
        (STAGED, "s2", 0, Refusal.CORRUPT),
        (STAGED, "s3", 1, Refusal.OTHER_SNAPSHOT),
        (STAGED, "", 1, Refusal.OTHER_SNAPSHOT),
        (ReceiveState(), "", 1, Refusal.OTHER_SNAPSHOT),
        (ReceiveState(), "s1", 1, Refusal.OTHER_SNAPSHOT),
    ],
)
def test_rows_that_do_not_follow_are_refused(marks, sync_id, first_row, kind):
    decision = decide_chunk(marks, sync_id, first_row, 3)
    assert isinstance(decision, Refuse)
    assert decision.kind == kind


def test_a_complete_snapshot_replaces_the_whole_state():
    snapshot = {"sync_id": "s2", "sync_rows": 5, "base_seq": 40, "entries_total": STAGED.entries_total + 5}
    assert decide_end(STAGED, CLAIM) == Publish(
        replace(STAGED, received=BASE, boundary_seq=40, staging=StagedRows(), **snapshot)
    )


def test_a_base_before_the_received_position_moves_the_position_back():
    decision = decide_end(STAGED, CLAIM._replace(base=Position("b1", 10)))
    assert (decision.marks.received, decision.marks.boundary_seq) == (Position("b1", 10), 10)


def test_an_empty_snapshot_is_complete():
    marks = decide_begin(ReceiveState(), "s1").marks
    decision = decide_end(marks, SnapshotClaim("s1", Position("b1", 0), 0, 0, 0))
    assert isinstance(decision, Publish)
    assert (decision.marks.sync_id, decision.marks.sync_rows) == ("s1", 0)


def test_the_end_of_the_published_snapshot_is_accepted_again():
    assert decide_end(STAGED, CLAIM._replace(sync_id="s1", rows=77)) == Nothing()


def test_the_end_of_a_truncated_snapshot_is_refused_without_discarding_its_rows():
    decision = decide_end(STAGED, CLAIM._replace(rows=6))
    assert isinstance(decision, Refuse)
    assert decision.kind == Refusal.CORRUPT
    assert "6 rows" in decision.reason
    assert "5 arrived" in decision.reason


@pytest.mark.parametrize("field", ["bytes", "checksum"])
def test_staged_rows_that_do_not_match_the_end_are_discarded(field):
    decision = decide_end(STAGED, CLAIM._replace(**{field: 7}))
    assert isinstance(decision, StartAgain)
    assert decision.refuse.kind == Refusal.CORRUPT
    assert f"{field} {getattr(STAGED.staging, field)} instead of 7" in decision.refuse.reason
    assert decision.marks == replace(STAGED, staging=StagedRows("s2"))


def test_staged_rows_are_discarded_if_there_are_too_many():
    assert isinstance(decide_end(STAGED, CLAIM._replace(rows=4)), StartAgain)


@pytest.mark.parametrize("sync_id", ["s3", ""])
def test_the_end_of_another_snapshot_is_refused(sync_id):
    assert decide_end(STAGED, CLAIM._replace(sync_id=sync_id)).kind == Refusal.OTHER_SNAPSHOT


def test_an_end_without_a_base_is_refused():
    assert decide_end(STAGED, CLAIM._replace(base=Position("", 0))).kind == Refusal.CORRUPT
