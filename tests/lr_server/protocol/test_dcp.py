"""The rules of DCP, by the cases of its documentation (`rollback.md`) and unit tests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lr_server.protocol.dcp import DcpResume, DcpRollback, dcp_decide
from lr_server.protocol.histories import Branch
from queues.errors import InvalidPositionError

#: Three branches: `old` up to 100, `mid` up to 200, `new` up to the newest sequence number.
LOG = (Branch("old", 0), Branch("mid", 100), Branch("new", 200))
HIGH = 300
RESUME = DcpResume()


def decided(start: int, snap_start: int, snap_end: int, branch: str, **more: object) -> DcpResume | DcpRollback:
    values: dict[str, object] = {"failover_log": LOG, "high_seq": HIGH, "purge_seq": 0, **more}
    return dcp_decide(start=start, snap_start=snap_start, snap_end=snap_end, branch=branch, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("case", "start", "snap_start", "snap_end", "branch", "expected"),
    [
        ("no history at 0", 0, 0, 0, "", RESUME),
        ("the same history at 0", 0, 0, 0, "new", RESUME),
        ("another history at 0", 0, 0, 0, "other", DcpRollback(0)),
        ("no history above 0", 10, 0, 20, "", DcpRollback(0)),
        ("another history above 0", 10, 0, 20, "other", DcpRollback(0)),
        ("a lagging consumer in the middle of a snapshot", 10, 0, 20, "new", RESUME),
        ("a whole snapshot below the end", 200, 200, 200, "new", RESUME),
        ("a whole snapshot at the end", 300, 210, 300, "new", RESUME),
        ("nothing yet of a snapshot that ends beyond", 200, 200, 301, "new", RESUME),
        ("nothing yet of a snapshot that begins at the end", 300, 300, 301, "new", RESUME),
        ("a whole snapshot beyond the end", 400, 400, 400, "new", DcpRollback(300)),
        ("a whole snapshot across the end", 310, 210, 310, "new", DcpRollback(300)),
        ("the middle of a snapshot across the end", 220, 210, 301, "new", DcpRollback(210)),
        ("beyond the end, in a snapshot across it", 310, 210, 320, "new", DcpRollback(210)),
        ("a snapshot wholly beyond the end", 320, 310, 340, "new", DcpRollback(300)),
        ("an older branch, before its end", 150, 150, 150, "mid", RESUME),
        ("an older branch, at its end", 200, 190, 200, "mid", RESUME),
        ("an older branch, across its end", 195, 190, 240, "mid", DcpRollback(190)),
        ("an older branch, beyond its end", 220, 210, 240, "mid", DcpRollback(200)),
        ("the oldest branch, beyond its end", 110, 105, 120, "old", DcpRollback(100)),
    ],
)
def test_documented_case(case: str, start: int, snap_start: int, snap_end: int, branch: str, expected: object):
    assert decided(start, snap_start, snap_end, branch) == expected, case


@pytest.mark.parametrize(
    ("case", "start", "snap_start", "snap_end", "purge", "expected"),
    [
        ("a snapshot that began before the purge", 250, 210, 260, 220, DcpRollback(0)),
        ("a snapshot that began at the purge", 250, 220, 260, 220, RESUME),
        ("a whole snapshot that began before the purge, but ends after it", 250, 210, 250, 220, RESUME),
        ("everything purged, but nothing is there yet", 0, 0, 0, 220, RESUME),
    ],
)
def test_purged_case(case: str, start: int, snap_start: int, snap_end: int, purge: int, expected: object):
    assert decided(start, snap_start, snap_end, "new", purge_seq=purge) == expected, case


@pytest.mark.parametrize(("start", "snap_start", "snap_end"), [(9, 10, 20), (21, 10, 20)])
def test_a_start_outside_its_snapshot_is_refused(start: int, snap_start: int, snap_end: int):
    with pytest.raises(InvalidPositionError, match="is not between"):
        decided(start, snap_start, snap_end, "new")


@given(
    numbers=st.lists(st.integers(0, 400), min_size=3, max_size=3).map(sorted),
    branch=st.sampled_from(["", "old", "mid", "new", "other"]),
    purge=st.integers(0, 400),
)
def test_a_resume_stays_in_the_shared_history_and_a_rollback_goes_back(numbers: list[int], branch: str, purge: int):
    snap_start, start, snap_end = numbers
    ends = {"old": 100, "mid": 200, "new": HIGH}
    match decided(start, snap_start, snap_end, branch, purge_seq=purge):
        case DcpResume():
            assert start <= ends.get(branch, 0)
        case DcpRollback(seq=seq):
            assert seq <= max(snap_start, start)
            assert seq <= ends.get(branch, 0)
