"""A new site is built by Spark and the log while the source continues to write.

LRQ_TEST_SNAPSHOT_ROWS chooses the size: in runs by hand 1000000 on PostgreSQL and 100000 on SQLite.
"""

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

import queues
from lr_client import subscribe
from lr_client.snapshot.requests import SnapshotTransmitter
from lr_client.spark import SparkSnapshotProvider
from queues.clock import SYSTEM_CLOCK
from tests.faults.plan import SINK, SOURCE, Plan
from tests.faults.processes import Process
from tests.lr_client.spark.faults import accounts
from tests.waiting import eventually

ROWS = int(os.environ.get("LRQ_TEST_SNAPSHOT_ROWS", "20000"))
_PATIENCE = 120.0 + ROWS / 1_000


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.processes
@pytest.mark.timeout(3 * _PATIENCE)
def test_a_site_built_under_load_equals_its_source(
    plan: Plan, process: Callable[[str, str], Process], spark: Any
) -> None:
    plan = replace(plan, batch_bytes=256 * 1024).save()
    source, sink = queues.create_engine(plan.source_url), queues.create_engine(plan.sink_url)
    queues.initialize(source, site_id=SOURCE)
    queues.initialize(sink, site_id=SINK)
    accounts.create(source, ROWS)
    accounts.create(sink, 0)
    listener, load = accounts.Accounts(), accounts.Load(source, ROWS)
    began = SYSTEM_CLOCK.monotonic()
    provider = SparkSnapshotProvider(spark, accounts.build)
    with (
        closing(SnapshotTransmitter(source, "policy", provider, poll_interval=0.1)),
        closing(subscribe(sink, listener, poll_interval=0.1)),
    ):
        with load.running():
            eventually(lambda: load.written > accounts.RATE // 5, timeout=_PATIENCE)
            process("server", "sink-server")
            process("server", "source-server")
            eventually(lambda: listener.completed, timeout=_PATIENCE)
            built = SYSTEM_CLOCK.monotonic() - began
            before = load.written
            eventually(lambda: load.written > before + accounts.RATE // 5, timeout=_PATIENCE)
        eventually(lambda: accounts.sums(sink) == accounts.sums(source), timeout=_PATIENCE, interval=0.2)
    print(
        f"{plan.source_url.partition(':')[0]}: {ROWS} rows applied after {built:.1f} s, {load.written} transactions in "
        f"{load.seconds:.1f} s ({load.per_second:.0f}/s), {listener.deltas} of them as deltas, "
        f"equal after {SYSTEM_CLOCK.monotonic() - began:.1f} s"
    )
    assert accounts.contents(sink) == accounts.contents(source)
    assert listener.completed == 1
    assert 0 < listener.deltas < load.written
    source.dispose()
    sink.dispose()
