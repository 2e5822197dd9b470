"""Servers of several rings are disturbed: each sink hears each acknowledged entry once, in the order of its key."""

from pathlib import Path

import pytest

from tests.conftest import NewSite
from tests.faults.rings_ledger import DiskRecord, Mark, problems_of_generations, problems_of_keys, problems_of_marks
from tests.faults.rings_rampage import FEWEST, PRODUCERS, RingsPlan, rings_rampage

RINGS = 3
MOMENTS = 3


@pytest.mark.nightly
@pytest.mark.parametrize("dialect", ["sqlite"])
@pytest.mark.processes
@pytest.mark.long
@pytest.mark.timeout(900)
def test_disturbed_servers_of_three_rings_never_lose_double_or_reorder_an_acknowledged_entry(
    new_site: NewSite, folder: Path, seed: int
) -> None:
    verdict = rings_rampage(new_site, folder, seed=seed, moments=MOMENTS, plan=RingsPlan(RINGS))
    print(verdict)
    assert verdict.ok, str(verdict)
    assert verdict.kills.total() == MOMENTS
    assert verdict.facts["entries"] >= FEWEST * RINGS * len(PRODUCERS)


@pytest.mark.parametrize(
    ("applied", "told"),
    [
        ([("r0", b"a/n:1"), ("r0", b"b/n:1"), ("r0", b"a/n:2")], []),
        ([("r0", b"a/n:1"), ("r0", b"b/n:1")], ["1 of 2 entries of a/n, wrong from place 1"]),
        ([("r0", b"a/n:2"), ("r0", b"a/n:1"), ("r0", b"b/n:1")], ["2 of 2 entries of a/n, wrong from place 0"]),
        ([("r0", b"a/n:1"), ("r0", b"a/n:2"), ("r0", b"b/n:1"), ("r0", b"b/n:1")], ["2 of 1 entries of b/n"]),
        ([("r0", b"a/n:1"), ("r0", b"a/n:2"), ("r0", b"b/n:1"), ("r0", b"c/n:1")], ["1 of 0 entries of c/n"]),
        ([("r0", b"a/n:1"), ("r1", b"a/n:2"), ("r0", b"b/n:1")], []),
    ],
)
def test_lost_doubled_and_misplaced_entries_of_a_key_are_told(
    applied: list[tuple[str, bytes]], told: list[str]
) -> None:
    found = problems_of_keys("tokyo", applied, {"a/n": 2, "b/n": 1})
    assert len(found) == len(told)
    assert all(words in problem for words, problem in zip(told, found, strict=True))


def test_a_key_that_comes_back_to_its_earlier_ring_is_told() -> None:
    applied = [("r0", b"a/n:1"), ("r1", b"a/n:2"), ("r0", b"a/s:1")]
    (problem,) = problems_of_keys("tokyo", applied, {"a/n": 2, "a/s": 1})
    assert "a from the rings r0, r1, r0 in turns" in problem


@pytest.mark.parametrize(
    ("disks", "faults"),
    [
        ([DiskRecord("0", [(2, "x"), (3, "y")], [2, 3]), DiskRecord("1", [(3, "y"), (3, "y")], [3])], 0),
        ([DiskRecord("0", [(2, "x")], [2]), DiskRecord("1", [(2, "y")], [2])], 1),
        ([DiskRecord("0", [(2, "x"), (2, "y")], [2])], 1),
        ([DiskRecord("0", [], [3, 2])], 1),
        ([DiskRecord("0", [], [3, 3])], 1),
    ],
)
def test_two_leaders_of_a_generation_and_a_promise_that_goes_back_are_told(
    disks: list[DiskRecord], faults: int
) -> None:
    assert len(problems_of_generations("paris-0", disks)) == faults


@pytest.mark.parametrize(
    ("marks", "faults"),
    [
        ([Mark(2, 1), Mark(2, 5), Mark(3, 5)], 0),
        ([Mark(3, 1), Mark(2, 5)], 1),
        ([Mark(3, 5), Mark(4, 4)], 1),
    ],
)
def test_a_generation_or_position_that_goes_back_at_a_sink_is_told(marks: list[Mark], faults: int) -> None:
    assert len(problems_of_marks("paris-0 at tokyo", marks)) == faults
