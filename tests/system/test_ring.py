"""A site on a ring: three server processes keep one log in three files, and a sink hears it from the leader."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.system.ring_sites import RANKS, RingSite
from tests.system.world import World
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(600)]


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ring(world: World, tmp_path: Path) -> Iterator[RingSite]:
    with ExitStack() as stack:
        site = RingSite(world, stack, tmp_path)
        for rank in RANKS:
            site.write(rank)
        site.found()
        site.begin(*RANKS)
        yield site


def test_a_producer_and_a_sink_go_on_when_the_leader_is_killed(world: World, ring: RingSite) -> None:
    heard = world.subscribe("tokyo")
    with ring.producer("meter") as producer:
        places = [producer.send([(b"%d" % number, ["tokyo"])], timeout=120) for number in range(5)]
        ring.kill(0)
        places += [producer.send([(b"%d" % number, ["tokyo"])], timeout=120) for number in range(5, 10)]
        ring.begin(0)
        ring.led_by(0)
        places += [producer.send([(b"%d" % number, ["tokyo"])], timeout=120) for number in range(10, 15)]
    assert [place.seq for place in places] == list(range(1, 16))
    eventually(lambda: heard.log("paris") == [b"%d" % number for number in range(15)], timeout=120)
    assert heard.kinds("paris") == ["log 15"]
    eventually(lambda: ring.log(0) == ring.log(1) == ring.log(2) == heard.log("paris"), timeout=120)


def test_a_new_producer_of_the_same_name_learns_its_last_number_at_the_next_leader(ring: RingSite) -> None:
    with ring.producer("meter") as producer:
        producer.send([(b"one", ["tokyo"]), (b"two", ["tokyo"])], timeout=120)
    ring.kill(0)
    with ring.producer("meter") as producer:
        assert producer.last_sequence(timeout=120) == 1
        assert producer.send([(b"three", ["tokyo"])], timeout=120).seq == 3
