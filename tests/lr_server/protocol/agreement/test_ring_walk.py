"""Every order of delivery, loss and crash within a few generations and ticks keeps R1 to R9."""

import pytest

from lr_server.protocol.agreement.generations import RANKS
from tests.lr_server.protocol.agreement.walk import Walk

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    ("generations", "ticks", "least"),
    [
        pytest.param((2, 3), 2, 10_000, id="two generations of two ticks"),
        pytest.param((2, 3, 4), 1, 10_000, id="three generations of one tick"),
    ],
)
def test_every_reachable_state_keeps_the_invariants(generations: tuple[int, ...], ticks: int, least: int):
    assert Walk(generations, ticks).run() > least


@pytest.mark.parametrize("rank", [0, *(pytest.param(rank, marks=pytest.mark.nightly) for rank in RANKS[1:])])
def test_a_disk_that_is_lost_at_any_moment_keeps_the_invariants(rank: int):
    assert Walk((2, 3), 1, loses_disk=rank).run() > 10_000
