"""The proof of the ring's demonstration detects every kind of wrong entry and file."""

from dataclasses import replace

import pytest

from lrq.demo.ring.files import are_alike, generations
from lrq.demo.ring.proof import prove
from lrq.demo.ring.report import RingReport
from queues.positions import Tick
from queues.send_log.port import LogRow
from queues.send_log.ring.tick_contents import TickContent

REPORT = RingReport(25.0, prove([1, 2], [1, 2]), [3, 3, 3], are_files_alike=True, generations=2, longest_pause=2.0)


def tick(number: int, generation: int = 2, payload: bytes = b"1") -> TickContent:
    header = Tick(number, number, "b", number - 1, number, number, is_large=False, mark="id/1", created_us=1)
    row = LogRow(number, number, number, "numbers", 1, None, 1, payload)
    return TickContent(generation, header, number - 1, {1: "tokyo"}, (row,))


def test_each_entry_once_in_order_passes():
    assert prove([1, 2, 3], [1, 2, 3]).ok


@pytest.mark.parametrize(
    ("heard", "words"),
    [
        ([1, 3], "entries missing: 1, doubled: 0, unexpected: 0; the others came in order"),
        ([1, 2, 2, 3], "entries missing: 0, doubled: 1, unexpected: 0; the others came in order"),
        ([1, 2, 3, 4], "entries missing: 0, doubled: 0, unexpected: 1; the others came in order"),
        ([2, 1, 3], "entries missing: 0, doubled: 0, unexpected: 0; the others came in another order"),
        ([], "entries missing: 3, doubled: 0, unexpected: 0; the others came in order"),
    ],
)
def test_a_lost_doubled_unexpected_or_reordered_entry_fails(heard: list[int], words: str):
    found = prove([1, 2, 3], heard)
    assert (found.ok, found.in_words()) == (False, words)


def test_files_with_the_same_ticks_are_alike():
    assert are_alike([[tick(1), tick(2)]] * 3)


@pytest.mark.parametrize("other", [[tick(1)], [tick(1), tick(2, payload=b"2")], [tick(1), tick(2, generation=3)]])
def test_a_missing_tick_or_another_content_makes_files_differ(other: list[TickContent]):
    assert not are_alike([[tick(1), tick(2)], [tick(1), tick(2)], other])


def test_each_generation_with_a_tick_is_counted_once():
    assert generations([tick(1), tick(2), tick(3, generation=3), tick(4, generation=4)]) == 3


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (replace(REPORT, numbers=prove([1, 2], [1])), "NO: entries missing: 1"),
        (
            replace(REPORT, are_files_alike=False, ticks=[3, 3, 2]),
            "NO: the three files differ. They have 3, 3, 2 ticks.",
        ),
        (replace(REPORT, numbers=prove([], [])), "The ring acknowledged 0 entries"),
    ],
)
def test_a_wrong_entry_or_file_or_an_empty_run_fails(report: RingReport, words: str):
    assert (REPORT.ok, report.ok) == (True, False)
    assert words in "\n".join(report.in_words())
    assert list(report.in_words())[-1] == "The proof has failed."
