"""Servers of a ring are killed, stopped and cut off: a sink hears each acknowledged entry once, in order.

Where both followers must acknowledge, each answered entry is on all three disks.
"""

from pathlib import Path

import pytest

from tests.conftest import NewSite
from tests.faults.ring_rampage import FEWEST, PRODUCERS, ring_rampage

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(900)]
MOMENTS = 4


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("acknowledging", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_disturbed_servers_of_a_ring_never_lose_double_or_reorder_an_acknowledged_entry(
    new_site: NewSite, folder: Path, seed: int, acknowledging: int
) -> None:
    verdict = ring_rampage(new_site, folder, seed=seed, moments=MOMENTS, acknowledging=acknowledging)
    print(verdict)
    assert verdict.ok, str(verdict)
    assert verdict.kills.total() == MOMENTS
    assert verdict.facts["entries"] >= FEWEST * len(PRODUCERS)
    assert bool(verdict.facts["answers compared with three disks"]) == (acknowledging == 2)
