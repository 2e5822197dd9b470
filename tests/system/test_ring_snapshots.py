"""A snapshot of a ring whose base no follower has: no sink gets it before the base is released."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from lr_client.producer import Producer
from queues import send_snapshot
from queues.database.transactions import reading, writing
from queues.errors import LrqError
from queues.send_snapshot import SnapshotState
from tests.conftest import NewSite
from tests.system.ring_servers import RANKS, RingServers
from tests.system.world import World
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ring(world: World, new_site: NewSite, tmp_path: Path) -> Iterator[RingServers]:
    """Give a ring whose leader goes on for ever without followers, and releases nothing then."""
    tokyo = world.server("tokyo", listen=[f"ipc://{tmp_path}/tokyo"]).endpoints[0]
    pace = {"lease_seconds": 2.0, "stall_seconds": 600.0}
    made = RingServers(new_site, tmp_path, ring=pace, peers={"tokyo": tokyo}, snapshot_poll_seconds=0.05)
    made.begin(*RANKS)
    with closing(made):
        yield made


def test_a_sink_gets_no_snapshot_whose_base_a_later_leader_may_replace(world: World, ring: RingServers) -> None:
    heard = world.subscribe("tokyo")
    eventually(lambda: ring.servers[0].is_owner, timeout=180)
    endpoint, file = ring.members[0], ring.engines[0]
    with Producer(endpoint, client="policy", producer="meter") as producer:
        producer.send([(b"released", ["tokyo"])], timeout=120)
        eventually(lambda: heard.log("paris") == [b"released"], timeout=120)
        ring.close(1, 2)
        # The leader stores this one, and no follower has it.
        with pytest.raises(LrqError):
            producer.send([(b"unreleased", ["tokyo"])], timeout=2)
    looks: list[int] = []
    shown = ring.servers[0]._roles._snapshots  # type: ignore[union-attr]
    released = shown._released
    shown._released = lambda: (looks.append(released()), looks[-1])[1]
    with writing(file) as connection:
        world.client.request_snapshot_sync(connection, "tokyo")

    def state(context) -> None:
        context.transmit(b"all up to now")
        context.mark_completed()

    with world.client.start_snapshot_transmitter(file, state):
        eventually(lambda: newest(file).state is SnapshotState.READY, timeout=120)
        # Each look at the complete snapshot asks for the released tick.
        eventually(lambda: len(looks) >= 3, timeout=120)
        assert heard.kinds("paris") == ["log 1"]
        assert newest(file).state is SnapshotState.READY
        ring.begin(1)
        eventually(lambda: "complete 1" in heard.kinds("paris"), timeout=180)
    assert heard.kinds("paris") == ["log 1", "start 1", "snapshot 1", "complete 1"]
    assert heard.snapshot("paris") == [b"all up to now"]


def newest(file):
    with reading(file) as connection:
        (found,) = send_snapshot.newest_of_each(connection)
    return found
