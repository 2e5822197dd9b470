"""An owner is paused until another takes over, and then resumes: no entry is lost or doubled."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import Engine, func, select

import queues
from tests.faults import ledger
from tests.faults.plan import Plan, set_up
from tests.faults.processes import Process
from tests.faults.standing_still import standing_still
from tests.waiting import eventually

STANDS_IN_FOR = {
    "source-server": ("server", "source_url"),
    "sink-server": ("server", "sink_url"),
    "subscriber": ("subscriber", "sink_url"),
}


def delivered(sink: Engine) -> int:
    with sink.connect() as connection:
        return connection.execute(select(func.count()).where(ledger.heard.c.kind == "log")).scalar_one()


@pytest.mark.processes
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "who", ["sink-server", *(pytest.param(who, marks=pytest.mark.nightly) for who in ("source-server", "subscriber"))]
)
def test_another_process_takes_over_and_the_resumed_one_gives_the_reason_of_its_end(
    plan: Plan, process: Callable[[str, str], Process], who: str
) -> None:
    if who == "sink-server":
        plan = replace(plan, sink_servers=("sink-server-1", "sink-server-2"))
    set_up(plan)
    role, url = STANDS_IN_FOR[who]
    source, sink = queues.create_engine(plan.source_url), queues.create_engine(plan.sink_url)
    owner = process(role, f"{who}-1")
    for name, (needed, _) in STANDS_IN_FOR.items():
        if name != who:
            process(needed, name)
    application = process("application", "application")
    eventually(lambda: owner.stands("owned as generation"), timeout=60)
    other = process(role, f"{who}-2")
    eventually(lambda: other.stands("standing by") or other.stands("takes the ticks"), timeout=60)
    eventually(lambda: delivered(sink) > 50, timeout=60)
    with standing_still(owner.pid, getattr(plan, url)):
        eventually(lambda: other.stands("owned as generation"), timeout=60)
        before = delivered(sink)
        eventually(lambda: delivered(sink) > before + 50, timeout=60)
    eventually(lambda: owner.has_logged("was taken over by generation"), timeout=60)
    before = delivered(sink)
    eventually(lambda: delivered(sink) > before + 50, timeout=60)
    plan.no_more_writing.touch()
    eventually(lambda: application.stands(ledger.WRITTEN_ALL), timeout=60)
    eventually(lambda: ledger.everything_arrived(source, sink), timeout=60)
    assert ledger.problems(source, sink) == []
    source.dispose()
    sink.dispose()
