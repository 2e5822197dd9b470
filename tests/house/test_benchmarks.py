"""The benchmarks compute their figures correctly."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.bars import Bar, Number, verdicts
from benchmarks.book import Book
from benchmarks.figures import Summary, percentile, rotated, shown
from benchmarks.issue_bars import BARS
from benchmarks.kept import FACT, kept, with_kept
from benchmarks.plot import plot
from benchmarks.report import Run, markdown
from benchmarks.stages import ACKNOWLEDGED, CALLED, PICKED_UP, Moment, budget
from benchmarks.workload import PAYLOAD_BYTES, Workload, payloads

BAR = Bar("speed", "rows/s", Number("one", "ours"), Number("one", "theirs"), 2.0)


def book(ours: float, theirs: float) -> Book:
    made = Book()
    for factor in (1, 3, 2):
        made.add("speed", "one", "ours", **{"rows/s": ours * factor})
        made.add("speed", "one", "theirs", **{"rows/s": theirs * factor})
    return made


def test_a_summary_has_the_median_and_both_ends():
    assert Summary.of([5.0, 1.0, 3.0]) == Summary(3.0, 1.0, 5.0, 3)


def test_each_run_begins_with_another_contender():
    assert [rotated("abc", run) for run in range(4)] == [list("abc"), list("bca"), list("cab"), list("abc")]
    assert rotated([], 3) == []


@pytest.mark.parametrize(("share", "found"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1)])
def test_a_percentile_is_one_of_the_values(share: float, found: int):
    assert percentile([float(value) for value in range(100, 0, -1)], share) == found


def test_numbers_are_shown_with_three_digits():
    assert [shown(value) for value in (12345.6, 12.345, 0.01234, 0.0)] == ["12,346", "12.3", "0.0123", "0"]


@pytest.mark.parametrize(("ours", "words"), [(10.0, "met"), (9.9, "missed")])
def test_a_bar_is_judged_by_the_ratio_of_the_medians(ours: float, words: str):
    (verdict,) = verdicts(book(ours, 5.0), (BAR,), {"speed"})
    assert verdict.words == words
    assert verdict.ratio == pytest.approx(ours / 5)


def test_a_bar_without_measurements_is_reported_and_not_met():
    (verdict,) = verdicts(Book(), (BAR,), {"speed"})
    assert verdict.words == "not measured"
    assert list(verdicts(Book(), (BAR,), {"other"})) == []


def test_a_bar_shows_the_ratios_of_its_floors():
    found = book(10.0, 5.0)
    found.add("speed", "one", "nothing", **{"rows/s": 15.0})
    bar = replace(BAR, floors=("nothing", "not measured"))
    (verdict,) = verdicts(found, (bar,), {"speed"})
    assert verdict.floors == {"nothing": pytest.approx(1.5)}
    assert "| met | nothing 1.5 |" in markdown(Run({}, found, [verdict]))


def test_the_page_names_missing_contenders():
    found = book(10.0, 5.0)
    found.lacks("broker", "not installed")
    page = markdown(Run({"runs": 3}, found, list(verdicts(found, (BAR,), {"speed"}))))
    assert "| speed | one | ours | rows/s | 20 | 10 – 30 | 3 |" in page
    assert "| speed | rows/s | ours, one | theirs | ≥ 2 | 2 | met |  |" in page
    assert "* broker: not installed" in page


def test_the_plot_has_a_bar_for_each_contender():
    assert plot(book(10.0, 5.0), "speed", "rows/s").count("<rect") == 3


def test_every_entry_is_for_the_configured_number_of_destinations():
    workload = Workload(560, destinations=8, each_to=3)
    assert sum(workload.owed()) == workload.deliveries == 1680
    assert len({workload.entry(number).targets for number in range(560)}) == 56
    assert workload.entry(7) == workload.entry(7)
    assert {len(payload) for payload in payloads()} == {PAYLOAD_BYTES}


def test_no_bar_is_listed_twice():
    assert len(set(BARS)) == len(BARS)


def test_experiments_that_are_not_repeated_keep_the_time_of_their_run(tmp_path: Path):
    first = book(10.0, 5.0)
    first.add("size", "one", "ours", MiB=1.0)
    Run({"when": "monday"}, first, []).save(tmp_path, "")
    for when in ("tuesday", "wednesday"):
        again = with_kept(Run({"when": when}, book(8.0, 8.0), []), kept(tmp_path, {"speed"}), ["speed", "size"])
        assert again.facts == {"when": when, FACT: {"size": "monday"}}
        assert again.book.median("size", "one", "ours", "MiB") == 1.0
        assert again.book.median("speed", "one", "ours", "rows/s") == 16.0
        assert [key.experiment for key in again.book.values] == ["speed", "speed", "size"]
        again.save(tmp_path, "")


def test_a_contender_that_is_measured_now_is_no_longer_reported_as_missing(tmp_path: Path):
    lacking = Book()
    lacking.lacks("theirs", "not installed")
    lacking.lacks("another", "not installed")
    Run({"when": "monday"}, lacking, []).save(tmp_path, "")
    again = with_kept(Run({"when": "tuesday"}, book(8.0, 8.0), []), kept(tmp_path, {"speed"}), ["speed"])
    assert again.book.missing == {"another": "not installed"}


def test_no_figures_are_kept_without_a_report(tmp_path: Path):
    assert not kept(tmp_path, {"speed"}).book.values


def test_the_budget_of_a_latency_is_the_median_time_from_the_commit_to_each_stage():
    moments = [
        Moment(ACKNOWLEDGED, 20, 1.030),
        Moment(PICKED_UP, 10, 1.001),
        Moment(PICKED_UP, 30, 1.022),
        Moment(ACKNOWLEDGED, 30, 1.040),
    ]
    found = budget(moments, commits=[1.0, 1.01, 1.02], numbers=[10, 20, 30])
    assert found == {PICKED_UP: pytest.approx(2.0), ACKNOWLEDGED: pytest.approx(20.0)}
    assert CALLED not in found


def test_the_budget_leaves_out_transactions_that_have_not_passed_a_stage():
    assert budget([Moment(CALLED, 10, 1.5)], [1.0, 1.1], [10, 20]) == {CALLED: pytest.approx(500.0)}
