"""Entries reach a table exactly once, also after faults between the table and Spark's checkpoint."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from lr_client.spark import exactly_once
from queues.errors import NeedsFullSyncError, UsageError
from tests.lr_client.spark.patience import patiently
from tests.lr_client.spark.sources.applying import apply, noting, streamed, told
from tests.lr_client.spark.sources.taking import change_branch, url_of
from tests.lr_client.subscriber.applying import payloads, texts
from tests.lr_client.subscriber.arrivals import Arrivals

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

_HOUSE = Path(__file__).parents[4]


@pytest.fixture
def target(sink: Engine) -> Engine:
    streamed.metadata.create_all(sink)
    return sink


def received(spark: Any, sink: Engine) -> Any:
    return spark.read.format("lrq_receive").options(url=url_of(sink), client="policy", partitions=2).load()


def follow(spark: Any, sink: Engine, checkpoint: Path, **options: Any) -> None:
    """Follow the queue to its end."""
    stream = spark.readStream.format("lrq_receive").options(url=url_of(sink), client="policy", **options).load()
    writer = stream.writeStream.foreachBatch(noting(url_of(sink))).option("checkpointLocation", str(checkpoint))
    patiently(lambda: writer.trigger(availableNow=True).start().awaitTermination(120))


@pytest.mark.processes
def test_a_driver_killed_before_its_checkpoint_has_the_batch_applies_each_entry_once(
    spark: Any, target: Engine, tokyo: Arrivals, tmp_path: Path
) -> None:
    tokyo.snapshot("s", payloads("row", 2))
    for payload in payloads("log", 6):
        tokyo.tick([payload])
    command = [
        sys.executable,
        "-m",
        "tests.lr_client.spark.sources.driver",
        url_of(target),
        str(tmp_path / "checkpoint"),
    ]
    killed = subprocess.run(
        command, cwd=_HOUSE, env={**os.environ, "PYTHONPATH": str(_HOUSE)}, timeout=200, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert told(target) == ["<start>", *texts("row", 2), "<complete>", *texts("log", 3)]
    assert {path.name for path in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*")} == {"0", "1"}
    assert {path.name for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]*")} == {"0"}
    assert tokyo.left == 6
    follow(spark, target, tmp_path / "checkpoint")
    assert told(target) == ["<start>", *texts("row", 2), "<complete>", *texts("log", 6)]
    assert tokyo.left == 0


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_snapshots_are_bracketed_even_empty_ones(spark: Any, target: Engine, tokyo: Arrivals, tmp_path: Path) -> None:
    tokyo.snapshot("s", payloads("row", 2))
    follow(spark, target, tmp_path, snapshotMarkers=True)
    tokyo.snapshot("empty", [])
    follow(spark, target, tmp_path, snapshotMarkers=True)
    assert told(target) == ["<start>", *texts("row", 2), "<complete>", "<start>", "<complete>"]


def test_repeated_entries_are_skipped_without_any_checkpoint(spark: Any, target: Engine, tokyo: Arrivals) -> None:
    once = noting(url_of(target))
    tokyo.snapshot("s", payloads("row", 2))
    once(received(spark, target), 0)
    tokyo.tick([b"1"], [b"2"])
    once(received(spark, target), 1)
    tokyo.tick([b"3"])
    noting(url_of(target))(received(spark, target), 0)
    assert told(target) == ["<start>", "row1", "row2", "<complete>", "1", "2", "3"]


def test_a_newer_snapshot_begins_again(spark: Any, target: Engine, tokyo: Arrivals) -> None:
    once = noting(url_of(target))
    tokyo.snapshot("s", [b"row"])
    once(received(spark, target), 0)
    tokyo.snapshot("empty", [], base=3)
    tokyo.tick([b"log"])
    once(received(spark, target), 1)
    tokyo.snapshot("third", [b"other"], base=3)
    once(received(spark, target), 2)
    assert told(target) == ["<start>", "row", "<start>", "<complete>", "log", "<start>", "other"]


def test_a_stream_that_begins_after_another_subscriber_s_snapshot_calls_no_start(
    spark: Any, target: Engine, tokyo: Arrivals
) -> None:
    tokyo.snapshot("s", [])
    tokyo.tick([b"log"])
    noting(url_of(target))(received(spark, target), 0)
    assert told(target) == ["log"]


def test_an_error_of_apply_undoes_the_batch(spark: Any, target: Engine, tokyo: Arrivals) -> None:
    def refuse(connection: Any, entries: Any) -> None:
        apply(connection, entries)
        if entries[0].kind == "log":
            raise RuntimeError("no room")

    tokyo.snapshot("s", [b"row"])
    tokyo.tick([b"log"])
    with pytest.raises(RuntimeError, match="no room"):
        exactly_once("test", target, refuse)(received(spark, target), 0)
    assert told(target) == []
    exactly_once("test", target, apply)(received(spark, target), 0)
    assert told(target) == ["row", "log"]


def test_streams_of_different_names_are_independent(spark: Any, target: Engine, tokyo: Arrivals) -> None:
    tokyo.tick([b"log"])
    exactly_once("one", target, apply)(received(spark, target), 0)
    exactly_once("other", target, apply)(received(spark, target), 0)
    assert told(target) == ["log", "log"]


def test_apply_is_given_a_bounded_number_of_entries(spark: Any, target: Engine, tokyo: Arrivals) -> None:
    sizes: list[int] = []
    tokyo.tick(*([b"%d" % number] for number in range(2_100)), [b"x" * 5_000_000], [b"last"])
    exactly_once("test", target, lambda _connection, entries: sizes.append(len(entries)))(received(spark, target), 0)
    assert sizes == [1_000, 1_000, 101, 1]


def test_entries_after_a_loss_at_the_source_are_not_mixed_with_applied_ones(
    spark: Any, target: Engine, tokyo: Arrivals
) -> None:
    kept = tokyo.tick([b"1"])
    tokyo.tick([b"2"])
    once = noting(url_of(target))
    once(received(spark, target), 0)
    tokyo.go_back(kept)
    tokyo.tick([b"other"])
    change_branch(target, "branch-2", kept)
    with pytest.raises(NeedsFullSyncError, match="tokyo had lost entries that are applied here: branch-1@2"):
        once(received(spark, target), 1)
    assert told(target) == ["1", "2"]


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_rows_out_of_order_are_refused(spark: Any, target: Engine, tokyo: Arrivals) -> None:
    tokyo.tick([b"1"], [b"2"])
    with pytest.raises(UsageError, match="out of order"):
        noting(url_of(target))(received(spark, target).orderBy("sequence", ascending=False), 0)
    with pytest.raises(UsageError, match=r"needs the columns \['branch', 'client', 'kind'"):
        noting(url_of(target))(received(spark, target).select("payload"), 0)
    with pytest.raises(UsageError, match="name"):
        exactly_once("", target, apply)
    assert told(target) == []
