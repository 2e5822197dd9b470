"""The benchmarks compute their figures correctly."""

from dataclasses import replace
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from queue import Queue
from threading import Thread

import pytest
import typer

from benchmarks.bars import LOGICAL, OURS, Bar, Number, verdicts
from benchmarks.book import Book
from benchmarks.console_cost import Cost, above, medians
from benchmarks.contenders.bare_relay import BareTickRelay
from benchmarks.contenders.bare_transfer import BareTransfer
from benchmarks.contenders.held_sinks import HeldSink
from benchmarks.contenders.jetstream import JetStream, JetStreamSynced, settings_of
from benchmarks.contenders.logical import LogicalReplication, LogicalReplicationSynced
from benchmarks.contenders.pgq import PgQ
from benchmarks.experiments.latency import SELDOM
from benchmarks.experiments.latency import SETTING as OFTEN
from benchmarks.figures import Summary, percentile, rotated, shown
from benchmarks.issue_bars import (
    ALL,
    APPLIED,
    BARS,
    CPU,
    JETSTREAM,
    ONE,
    ONE_KIB,
    RATE,
    SYNCED_JETSTREAM,
    THREE,
    UNAPPLIED,
)
from benchmarks.kept import FACT, kept, with_kept
from benchmarks.main import EXPERIMENTS
from benchmarks.moments import ACKNOWLEDGED, CALLED, PICKED_UP, Moment, budget
from benchmarks.plot import plot
from benchmarks.profile import by_stage
from benchmarks.profile import rows as profile_rows
from benchmarks.report import Run, markdown
from benchmarks.revisions import compare
from benchmarks.revisions import rows as revision_rows
from benchmarks.servers import binaries, has_pgq
from benchmarks.stages import SERVER, SUBSCRIBER, Stages, kind_of
from benchmarks.workload import PAYLOAD_BYTES, Workload, payloads
from queues.wire.replication_pb2 import Frame, SessionId, TickGroup, TickHeader

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
    found = Book()
    for contender in ("ours", "theirs"):
        found.add("deliveries", "one", contender, **{"deliveries/s": 10.0})
    assert plot(found).count("<rect") == 3


def test_every_entry_is_for_the_configured_number_of_destinations():
    workload = Workload(560, destinations=8, each_to=3)
    assert sum(workload.owed()) == workload.deliveries == 1680
    assert len({workload.entry(number).targets for number in range(560)}) == 56
    assert workload.entry(7) == workload.entry(7)
    assert {len(payload) for payload in payloads()} == {PAYLOAD_BYTES}


def test_no_bar_is_listed_twice():
    assert len(set(BARS)) == len(BARS)


def test_every_bar_belongs_to_an_experiment():
    assert {bar.experiment for bar in BARS} <= set(EXPERIMENTS)


@pytest.mark.parametrize(
    ("experiment", "unit", "ours", "other", "words"),
    [
        ("deliveries", RATE, Number(ONE, OURS), Number(ONE, LOGICAL), "≥ 1.1"),
        ("deliveries", RATE, Number(ALL, OURS), Number(ALL, LOGICAL), "≥ 2"),
        ("deliveries", RATE, Number(THREE, OURS), Number(THREE, LOGICAL), "≥ 1.6"),
        ("deliveries", CPU, Number(ALL, OURS), Number(ALL, LOGICAL), "≤ 0.48"),
        ("deliveries", CPU, Number(THREE, OURS), Number(THREE, BareTransfer.name), "≤ 0.8"),
        ("latency", "p50 ms", Number(OFTEN, OURS), Number(OFTEN, LOGICAL), "≤ 4"),
        ("latency", "p99 ms", Number(OFTEN, OURS), Number(OFTEN, LOGICAL), "≤ 4"),
        ("latency", "p50 ms", Number(SELDOM, OURS), Number(SELDOM, BareTickRelay.name), "≤ 1.3"),
        ("applied", RATE, Number(ALL, APPLIED), Number(ALL, PgQ.name), "≥ 3"),
        ("applied", RATE, Number(ALL, APPLIED), Number(ALL, JetStreamSynced.name), "≥ 3"),
        ("stored", "KiB per entry", Number(UNAPPLIED, OURS), Number(UNAPPLIED, ONE_KIB), "≤ 0.85"),
        ("stored", "KiB per entry", Number(UNAPPLIED, "lrq on SQLite"), Number(UNAPPLIED, ONE_KIB), "≤ 0.85"),
    ],
)
def test_the_bars_compare_numbers_that_are_measured(
    experiment: str, unit: str, ours: Number, other: Number, words: str
):
    (found,) = [
        bar for bar in BARS if (bar.experiment, bar.unit, bar.ours, bar.other) == (experiment, unit, ours, other)
    ]
    assert found.words == words


def test_the_synced_contenders_wait_for_the_disk():
    assert LogicalReplication.synchronous_commit == "off"
    assert LogicalReplicationSynced.synchronous_commit == "on"
    settings = settings_of(4222, Path("/files"), JetStreamSynced.sync_interval)
    assert 'jetstream { store_dir: "/files", sync_interval: "always" }' in settings
    assert JetStreamSynced.name == SYNCED_JETSTREAM
    assert JetStream.name == JETSTREAM
    assert JetStream.sync_interval != JetStreamSynced.sync_interval


@pytest.mark.parametrize("which", ["nonsense", "/"])
def test_a_postgresql_without_its_programs_is_refused(which: str):
    with pytest.raises(typer.BadParameter, match="choose auto, debian, wheel, or a folder that holds initdb"):
        binaries(which)


def test_a_moved_postgresql_has_its_own_extensions(tmp_path: Path):
    programs = tmp_path / "lib" / "postgresql" / "15" / "bin"
    extensions = tmp_path / "share" / "postgresql" / "15" / "extension"
    programs.mkdir(parents=True)
    extensions.mkdir(parents=True)
    assert not has_pgq(programs)
    (extensions / "pgq.control").touch()
    assert has_pgq(programs)


def test_experiments_that_are_not_repeated_keep_the_time_and_the_postgresql_of_their_run(tmp_path: Path):
    first = book(10.0, 5.0)
    first.add("size", "one", "ours", MiB=1.0)
    Run({"when": "monday", "PostgreSQL": "15.20 (Debian), fsync=on"}, first, []).save(tmp_path, "")
    for when in ("tuesday", "wednesday"):
        again = with_kept(
            Run({"when": when, "PostgreSQL": "16.0"}, book(8.0, 8.0), []), kept(tmp_path, {"speed"}), ["speed", "size"]
        )
        assert again.facts[FACT] == {"size": "monday, PostgreSQL 15.20 (Debian)"}
        assert again.book.median("size", "one", "ours", "MiB") == 1.0
        assert again.book.median("speed", "one", "ours", "rows/s") == 16.0
        assert [key.experiment for key in again.book.values] == ["speed", "speed", "size"]
        again.save(tmp_path, "")


def test_kept_figures_tell_the_version_of_their_postgresql(tmp_path: Path):
    Run({"when": "monday", "PostgreSQL": "15.20, fsync=on"}, book(10.0, 5.0), []).save(tmp_path, "")
    assert kept(tmp_path, set()).when == {"speed": "monday, PostgreSQL 15.20"}


def test_a_contender_that_is_measured_now_is_no_longer_reported_as_missing(tmp_path: Path):
    lacking = Book()
    lacking.lacks("theirs", "not installed")
    lacking.lacks("another", "not installed")
    Run({"when": "monday"}, lacking, []).save(tmp_path, "")
    again = with_kept(Run({"when": "tuesday"}, book(8.0, 8.0), []), kept(tmp_path, {"speed"}), ["speed"])
    assert again.book.missing == {"another": "not installed"}


def test_no_figures_are_kept_without_a_report(tmp_path: Path):
    assert not kept(tmp_path, {"speed"}).book.values


def test_each_stage_of_the_profile_is_a_function_of_the_program():
    for name in (*SERVER, *SUBSCRIBER):
        module, _, qualified = name.partition(":")
        assert callable(attrgetter(qualified)(import_module(module)))


def test_the_time_of_a_nested_stage_does_not_count_for_the_outer_one(monkeypatch: pytest.MonkeyPatch):
    moments = iter([0.0, 1.0, 4.0, 6.0])
    monkeypatch.setattr("benchmarks.stages.time.thread_time", lambda: next(moments))
    stages = Stages()
    inner = stages.wrapped(lambda: None, "inner")
    stages.wrapped(inner, "outer")()
    found = stages.report()
    assert (found["inner"], found["outer"]) == (3.0, 3.0)


def test_a_stage_that_raises_ends():
    stages = Stages()

    def fails() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        stages.wrapped(fails, "stage")()
    assert stages.report()["stage"] >= 0


@pytest.mark.parametrize(
    ("thread", "kind"),
    [
        ("lrq-stream-bench-sink7", "lrq-stream"),
        ("Thread-12 (channel_spin)", "channel_spin"),
        ("ThreadPoolExecutor-0_3", "ThreadPoolExecutor-0"),
        ("Thread-3 (_serve)", "gRPC's thread of calls"),
        ("MainThread", "MainThread"),
    ],
)
def test_threads_of_one_kind_are_counted_together(thread: str, kind: str):
    assert kind_of(thread) == kind


def test_the_profile_shows_each_stage_and_the_rest_for_one_delivery():
    before = {"source": [{"source: tick": 1.0, "other, x": 0.5}], "sink": [{}, {}], "subscriber": [{}]}
    after = {
        "source": [{"source: tick": 3.0, "other, x": 0.25}],
        "sink": [{"sink: unpack": 1.0}, {"sink: unpack": 2.0}],
        "subscriber": [{"subscriber: read": 1.0}],
    }
    found = by_stage(before, after, 10.0)
    assert found == {
        "source: tick": 2.0,
        "source: other, x": 0.0,
        "sink: unpack": 3.0,
        "subscriber: read": 1.0,
        "writer and databases": 4.0,
    }
    assert profile_rows(found, 1_000_000)[:3] == [
        ("source: tick", "2", "33.3%"),
        ("source: other, x", "0", "0.0%"),
        ("source, together", "2", "33.3%"),
    ]


def test_held_sinks_wait_for_all_sessions_before_they_take_entries():
    sink = HeldSink(sessions=2, entries=10)
    taken: Queue[str] = Queue()

    def follow(name: str) -> None:
        header = TickHeader(end_seq=10)
        frames = [Frame(session=SessionId(sink=name)), Frame(session=SessionId(sink=name))]
        frames[1].batch.groups.append(TickGroup(header=header, complete=True))
        for _ in sink.replicate(iter(frames)):
            taken.put(name)

    threads = [Thread(target=follow, args=(name,)) for name in ("tokyo", "lima")]
    for thread in threads:
        thread.start()
    sink.wait_begun()
    assert {taken.get(timeout=30) for _ in threads} == {"tokyo", "lima"}
    assert taken.empty()
    sink.release()
    sink.wait_done()
    assert {taken.get(timeout=30) for _ in threads} == {"tokyo", "lima"}
    for thread in threads:
        thread.join()


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


def test_two_revisions_are_compared_round_by_round():
    pairs = [({"speed": 10.0}, {"speed": 5.0}), ({"speed": 20.0}, {"speed": 30.0}), ({"speed": 40.0}, {"speed": 40.0})]
    assert revision_rows(pairs) == [("speed", "20", "30", "1.5", "0.5 – 1.5")]


def test_a_former_zero_has_no_ratio():
    assert revision_rows([({"idle": 0.0}, {"idle": 5.0})]) == [("idle", "0", "5", "", "")]
    assert revision_rows([({"idle": 0.0}, {"idle": 5.0}), ({"idle": 4.0}, {"idle": 1.0})]) == [
        ("idle", "2", "3", "1.5", "0.25 – 0.25")
    ]


def test_a_folder_without_a_revision_is_refused(tmp_path: Path):
    with pytest.raises(typer.BadParameter, match="unpack one there with git archive"):
        compare(tmp_path, server="wheel")


def test_the_cost_of_a_console_is_the_median_of_its_windows():
    windows = [Cost(0.5, 0.01, 0.02, 0.1), Cost(0.7, 0.03, 0.01, 0.3), Cost(0.6, 0.02, 0.09, 0.2)]
    assert medians(windows) == [0.6, 0.02, 0.02, 0.2]


def test_the_cost_of_a_console_is_the_mean_above_the_neighbours_of_the_same_rounds():
    mean, error = above([Cost(0.50), Cost(0.82), Cost(0.60)], [Cost(0.48), Cost(0.80), Cost(0.58)])
    assert (mean, error) == (pytest.approx(0.02), pytest.approx(0.0))
    assert above([Cost(0.3), Cost(0.5)], [Cost(0.2), Cost(0.2)]) == (pytest.approx(0.2), pytest.approx(0.1))
    assert above([Cost(0.5)], [Cost(0.2)]) == (pytest.approx(0.3), None)
