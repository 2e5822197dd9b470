"""The takeovers that a run reports, and the journals of its producers."""

from pathlib import Path

import pytest

from tests.faults.site_ledger import Led
from tests.faults.site_producers import Journal
from tests.faults.takeovers import NEVER, Disturbance, process_of, takeovers

LEASE = 6.0
ONE, TWO, THREE = "host:1:77:boot.4:aa", "host:2:78:boot.4:bb", "ho:st:3:79:boot.4:cc"


def killed(pid: int, began: float, *others: int) -> Disturbance:
    return Disturbance(pid, began, NEVER, frozenset(others))


def stopped(pid: int, began: float, ended: float, *others: int) -> Disturbance:
    return Disturbance(pid, began, ended, frozenset(others))


def test_the_process_of_a_server_stands_in_its_name() -> None:
    assert [process_of(each) for each in (ONE, TWO, THREE, "")] == [1, 2, 3, 0]


@pytest.mark.parametrize(
    ("disturbed", "led", "found"),
    [
        ([killed(1, 10, 2)], [Led(0, ONE, 1, 5), Led(0, TWO, 2, 12)], [2]),
        ([killed(1, 10, 2)], [Led(0, ONE, 1, 5), Led(0, "", 1, 11), Led(0, TWO, 2, 12)], [2]),
        ([killed(1, 10, 2)], [Led(0, ONE, 1, 5), Led(1, ONE, 2, 5), Led(0, TWO, 3, 12), Led(1, TWO, 4, 13)], [2, 3]),
        # The range was led by another server, or had been released.
        ([killed(1, 10, 2)], [Led(0, ONE, 1, 5), Led(0, TWO, 2, 8), Led(0, THREE, 3, 12)], []),
        ([killed(1, 10, 2)], [Led(0, ONE, 1, 5), Led(0, "", 1, 8), Led(0, TWO, 2, 12)], []),
        # A stopped server need not be replaced if it goes on within its lease.
        ([stopped(1, 10, 15, 2)], [Led(0, ONE, 1, 5)], []),
        ([stopped(1, 10, 15, 2)], [Led(0, ONE, 1, 5), Led(0, TWO, 2, 20)], []),
        ([stopped(1, 10, 15, 2)], [Led(0, ONE, 1, 5), Led(0, TWO, 2, 14)], [4]),
        # A takeover after the lease, or none, is told.
        ([stopped(1, 10, 18, 2)], [Led(0, ONE, 1, 5), Led(0, TWO, 2, 19)], [9]),
        ([stopped(1, 10, 18, 2)], [Led(0, ONE, 1, 5)], [NEVER]),
        ([killed(1, 10, 2)], [Led(0, ONE, 1, 5)], [NEVER]),
        # The run ended before one lease had passed.
        ([killed(1, 95, 2)], [Led(0, ONE, 1, 5)], []),
        # No server was undisturbed meanwhile.
        ([killed(1, 10)], [Led(0, ONE, 1, 5), Led(0, THREE, 2, 30)], []),
        ([killed(1, 10, 2), killed(2, 11, 4)], [Led(0, ONE, 1, 5), Led(0, THREE, 2, 30)], []),
        ([killed(1, 10, 2, 3), killed(2, 11, 3)], [Led(0, ONE, 1, 5), Led(0, THREE, 2, 15)], [5]),
        ([killed(1, 10, 2), killed(2, 13, 4)], [Led(0, ONE, 1, 5), Led(0, TWO, 2, 12), Led(0, THREE, 3, 14)], [2, 1]),
    ],
)
def test_takeovers_count_from_the_disturbance_to_the_next_leader(
    disturbed: list[Disturbance], led: list[Led], found: list[float]
) -> None:
    assert takeovers(disturbed, led, LEASE, over=100.0) == found


def test_a_journal_outlives_its_process_without_half_a_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    journal.add([("producer-0:10", ["tokyo"]), ("producer-0:11", ["lima"])])
    with (tmp_path / "journal").open("a") as file:
        file.write('[["producer-0:20"')
    again = Journal(tmp_path / "journal")
    assert again.requests == [[["producer-0:10", ["tokyo"]], ["producer-0:11", ["lima"]]]]
    again.add([("producer-0:20", ["tokyo"])])
    assert len(Journal(tmp_path / "journal").requests) == 2
