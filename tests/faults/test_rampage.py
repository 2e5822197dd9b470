"""After `kill -9` of any process at any moment, all entries arrive once and in order (25 kills per database)."""

from pathlib import Path

import pytest

from tests.faults.plan import Plan
from tests.faults.rampage import LEAST_DELIVERED, rampage

MOMENTS = 25


@pytest.mark.processes
@pytest.mark.timeout(300)
def test_random_kills_never_lose_double_or_reorder_a_committed_entry(plan: Plan) -> None:
    verdict = rampage(Path(plan.folder), plan.source_url, plan.sink_url, seed=plan.seed, moments=MOMENTS)
    print(verdict)
    assert verdict.ok, str(verdict)
    assert verdict.kills.total() == MOMENTS
    assert verdict.facts["delivered"] > LEAST_DELIVERED
    assert verdict.facts["snapshots"] >= 1
