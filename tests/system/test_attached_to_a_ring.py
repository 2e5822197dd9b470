"""An attached site gets the log of a ring from each leader."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine

from lr_client.producer import Producer
from tests.system.ring_servers import RingServers
from tests.system.world import World
from tests.waiting import eventually


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.long
def test_a_site_that_is_attached_to_all_servers_of_a_ring_goes_on_with_the_next_leader(
    world: World, new_site: Callable[[str], Engine], tmp_path: Path
) -> None:
    pace = {"lease_seconds": 2.0, "stall_seconds": 3.0}
    ring = RingServers(new_site, tmp_path, ring=pace, peers={"tokyo": "attached:tokyo"}, retry_cap_seconds=0.5)
    recorder = world.subscribe("tokyo")
    members = ",".join(ring.members)
    world.server("tokyo", listen=[], attach={"paris": members})
    ring.begin(0, 1, 2)
    with closing(ring), Producer(members, client="policy", producer="meter") as producer:
        producer.send([(b"1", ["tokyo"])], timeout=60)
        eventually(lambda: recorder.log("paris") == [b"1"])
        ring.close(0)
        producer.send([(b"2", ["tokyo"])], timeout=60)
        eventually(lambda: recorder.log("paris") == [b"1", b"2"])
