"""An interrupted snapshot transfer resumes where it stopped, at the death of either side."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import Engine, text

import queues
from tests.faults import ledger
from tests.faults.plan import Plan, set_up
from tests.faults.processes import Process
from tests.faults.rampage import watching_staged_rows
from tests.faults.transfers import kill_on_the_way, needless, sent_chunks
from tests.waiting import eventually


def requests(source: Engine) -> list[tuple[int, str]]:
    with source.connect() as connection:
        return [
            (row.attempt, row.state) for row in connection.execute(text("SELECT attempt, state FROM lrq_snapshots"))
        ]


@pytest.mark.processes
@pytest.mark.timeout(240)
def test_killed_sinks_and_sources_resume_the_transfer(plan: Plan, process: Callable[[str, str], Process]) -> None:
    plan = replace(plan, batch_bytes=64, window_frames=4)
    set_up(plan)
    plan.no_more_writing.touch()
    source, sink = queues.create_engine(plan.source_url), queues.create_engine(plan.sink_url)

    plan.allow_rows(0)
    process("application", "application")
    servers = [process("server", "sink-server"), process("server", "source-server")]
    with watching_staged_rows(sink) as went_back:
        kill_on_the_way([*servers, *servers[:1]], plan, sink, ledger.ITEMS, timeout=40)
        process("subscriber", "subscriber")
        eventually(lambda: ledger.everything_arrived(source, sink), timeout=60)
    assert went_back == []
    ((_, chunks),) = sent_chunks(servers[1].log).items()
    assert needless(chunks, plan.window_frames) == ""
    assert sum(chunk.last - chunk.first + 1 for chunk in chunks) < 1.3 * ledger.ITEMS
    eventually(lambda: requests(source) == [(1, "applied")], timeout=60)
    assert ledger.problems(source, sink) == []
    source.dispose()
    sink.dispose()
