"""A sequencer that cannot renew its lease goes on, and says so in its log, its readiness and the status."""

import logging

import pytest

from lrq.cli import health
from lrq.cli.health import troubles
from tests.refused_renewals import renewals_refused
from tests.system.world import World, in_log_sync
from tests.waiting import eventually


def test_a_sequencer_that_cannot_renew_its_lease_says_so_and_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(health, "_TAKEN_OVER_US", 0)
    caplog.set_level(logging.INFO)
    tokyo = world.subscribe("tokyo")
    world.begun("paris", "tokyo")
    paris = world.link("paris", "tokyo", initial_sync="log", clients=["policy"], lease_seconds=1.0)
    in_log_sync(paris, "tokyo")
    with renewals_refused(world.site("paris")):
        eventually(lambda: "no_renewals" in paris.health_troubles().get("role", ""))
        eventually(lambda: any("lease of the sequencer" in each for each in troubles(paris.site_status())))
        world.transmit("paris", b"goes on", to=["tokyo"])
        eventually(lambda: tokyo.log("paris") == [b"goes on"])
    eventually(lambda: "role" not in paris.health_troubles())
    eventually(lambda: not troubles(paris.site_status()))
    told = [record.getMessage() for record in caplog.records if "lease of the sequencer" in record.getMessage()]
    assert len(told) == 2
    assert "no_renewals" in told[0]
    assert "is stored again" in told[1]
