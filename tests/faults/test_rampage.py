"""`kill -9` of any process at any moment: everything arrives, exactly once, in order (25 moments a database)."""

from pathlib import Path

import pytest

from tests.faults.plan import Plan
from tests.faults.rampage import rampage

MOMENTS = 25


@pytest.mark.processes
@pytest.mark.timeout(300)
def test_whatever_is_killed_whenever_all_that_was_committed_arrives_once_in_order(plan: Plan) -> None:
    verdict = rampage(Path(plan.folder), plan.source_url, plan.sink_url, seed=plan.seed, moments=MOMENTS)
    print(verdict)
    assert verdict.ok, str(verdict)
    assert verdict.kills.total() == MOMENTS
    assert verdict.facts["delivered"] > 100
    assert verdict.facts["snapshots"] >= 1
