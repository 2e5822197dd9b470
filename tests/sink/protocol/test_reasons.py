"""Each refusal of a frame says in one sentence which numbers and names do not fit."""

import pytest

from queues.positions import Position
from queues.receive.marks import ReceiveState, StagedRows
from sink.protocol.log_rules import FrameTick, Refuse, Speaker, admit, decide_batch, decide_rollback
from sink.protocol.snapshot_rules import SnapshotClaim, StartAgain, decide_begin, decide_chunk, decide_end

AT_20 = ReceiveState(received=Position("b1", 20), boundary_seq=20, generation=5)
OPEN = ReceiveState(received=Position("b1", 23), boundary_seq=20)
STAGING = ReceiveState(staging=StagedRows("s1", 7, 70, 700))


def claim(sync_id: str = "s1", branch: str = "b1", rows: int = 7, size: int = 70, checksum: int = 700) -> SnapshotClaim:
    return SnapshotClaim(sync_id, Position(branch, 9), rows, size, checksum)


def batch(marks: ReceiveState, start: Position, *groups: FrameTick) -> object:
    return decide_batch(marks, start, groups, cut_passed=False)


REFUSED = [
    (
        admit(AT_20, Speaker("paris", "tokyo", "policy", 4), "tokyo", negotiated=True),
        "generation 4 of paris was replaced by 5",
    ),
    (
        admit(AT_20, Speaker("paris", "lima", "policy", 5), "tokyo", negotiated=True),
        "this is site 'tokyo', not 'lima': correct the peer's address",
    ),
    (
        admit(AT_20, Speaker("paris", "tokyo", "policy", 5), "tokyo", negotiated=False),
        "paris has not negotiated this stream, or a newer one has taken its place",
    ),
    (
        batch(AT_20, Position("b1", 20), FrameTick("b1", 20, 30, 1), FrameTick("b1", 25, 40, 1)),
        "the groups of a batch overlap at 30",
    ),
    (
        batch(AT_20, Position("b2", 10)),
        "a batch from b2@10 does not continue b1@20 (tick end 20): negotiate",
    ),
    (
        batch(AT_20, Position("b1", 21)),
        "the batch begins after 21, but only 20 was received",
    ),
    (
        batch(AT_20, Position("b1", 20), FrameTick("b1", 20, 22, 3)),
        "a tick up to 22 has more rows than sequence numbers",
    ),
    (
        batch(OPEN, Position("b1", 20), FrameTick("b2", 20, 30, 1)),
        "a tick after b2@20 does not continue b1@23 (tick end 20): negotiate",
    ),
    (
        batch(AT_20, Position("b1", 15), FrameTick("b1", 15, 25, 1)),
        "a tick from 15 to 25 does not continue b1@20 (tick end 20): negotiate",
    ),
    (
        batch(OPEN, Position("b1", 20), FrameTick("b1", 20, 30, 1, first_index=5)),
        "rows of a tick are missing between 23 and 25",
    ),
    (
        batch(OPEN, Position("b1", 20), FrameTick("b1", 20, 30, 2)),
        "the tick up to 30 had 3 rows and now has 2",
    ),
    (
        decide_rollback(AT_20, Position("b1", 10), 0, known=False),
        "no header b1@10 is kept here to roll back to",
    ),
    (
        decide_rollback(AT_20, Position("b1", 10), 15, known=True),
        "entries up to 15 were applied, so nothing can go back to 10",
    ),
    (decide_begin(STAGING, ""), "a snapshot begins without a sync_id"),
    (decide_chunk(STAGING, "s2", 8, 1), "snapshot s2 is not the one being staged (s1)"),
    (decide_chunk(ReceiveState(), "", 8, 1), "snapshot without id is not the one being staged (none)"),
    (decide_chunk(STAGING, "s1", 0, 1), "the rows of a snapshot are numbered from 1"),
    (decide_chunk(STAGING, "s1", 9, 1), "row 9 of the snapshot follows row 7"),
    (decide_end(STAGING, claim("s2")), "snapshot s2 is not the one being staged (s1)"),
    (decide_end(STAGING, claim(branch="")), "the end of a snapshot names no position where the log continues"),
    (decide_end(STAGING, claim(rows=8)), "the snapshot has 8 rows, but only 7 arrived"),
]


@pytest.mark.parametrize(("decision", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_a_refusal_names_the_numbers_that_do_not_fit(decision: object, reason: str):
    assert isinstance(decision, Refuse), decision
    assert decision.reason == reason


def test_a_snapshot_that_differs_names_every_difference():
    decision = decide_end(STAGING, claim(rows=6, size=71, checksum=1))
    assert isinstance(decision, StartAgain)
    assert decision.refuse.reason == (
        "the snapshot arrived with rows 7 instead of 6, bytes 70 instead of 71, checksum 700 instead of 1: "
        "its transfer starts again"
    )
    assert decision.marks.staging == StagedRows("s1")
