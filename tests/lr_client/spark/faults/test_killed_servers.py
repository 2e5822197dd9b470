"""Servers that die during the building and the transfer of a snapshot by Spark."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

import queues
from lr_client import subscribe
from lr_client.snapshot.requests import SnapshotTransmitter
from lr_client.spark import SparkSnapshotContext, SparkSnapshotProvider
from tests.faults.plan import SINK, SOURCE, Plan
from tests.faults.processes import Process
from tests.faults.rampage import watching_staged_rows
from tests.faults.transfers import kill_on_the_way, needless, sent_chunks
from tests.lr_client.spark.faults import accounts, readings
from tests.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.processes, pytest.mark.timeout(900)]

_ROWS = 3_000


@pytest.mark.nightly
def test_a_snapshot_survives_both_servers_and_is_built_only_once(
    plan: Plan, process: Callable[[str, str], Process], spark: Any
) -> None:
    plan = replace(plan, batch_bytes=64, window_frames=4).save()
    source, sink = queues.create_engine(plan.source_url), queues.create_engine(plan.sink_url)
    for engine, site, rows in ((source, SOURCE, _ROWS), (sink, SINK, 0)):
        queues.initialize(engine, site_id=site)
        accounts.create(engine, rows)
    servers = [process("server", "sink-server"), process("server", "source-server")]
    listener, load = accounts.Accounts(), accounts.Load(source, _ROWS)

    def build(spark: Any, context: SparkSnapshotContext) -> Any:
        restart(servers)
        return accounts.build(spark, context)

    plan.allow_rows(0)
    provider = SparkSnapshotProvider(spark, build)
    with (
        closing(SnapshotTransmitter(source, "policy", provider, poll_interval=0.05, block_rows=10)),
        ExitStack() as ending,
    ):
        with load.running():
            with watching_staged_rows(sink) as went_back:
                kill_on_the_way([*servers, *servers], plan, sink, _ROWS, timeout=readings.PATIENCE)
            ending.enter_context(closing(subscribe(sink, listener, poll_interval=0.05)))
            eventually(lambda: listener.completed, timeout=readings.PATIENCE)
        eventually(lambda: accounts.sums(sink) == accounts.sums(source), timeout=readings.PATIENCE)
    assert accounts.contents(sink) == accounts.contents(source)
    assert went_back == []
    ((_, chunks),) = sent_chunks(servers[1].log).items()
    assert needless(chunks, plan.window_frames) == ""
    with source.connect() as connection:
        assert connection.execute(text("SELECT attempt, state FROM lrq_snapshots")).all() == [(1, "applied")]
    source.dispose()
    sink.dispose()


def restart(servers: list[Process]) -> None:
    """Kill the servers at any moment of their work, and start them again."""
    for server in servers:
        server.kill()
    for server in servers:
        server.start()
