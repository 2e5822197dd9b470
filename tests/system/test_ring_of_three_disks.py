"""A ring that answers producers once all three disks have their entries: losses of one follower, and of two disks."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from queues.wire import ingest_pb2 as pb
from tests.system.raw_producer import RawProducer, request
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
        site.more_of_ring = "acknowledging_followers = 2\n"
        site.begin_anew()
        yield site


def misses(ring: RingSite, leader: int, lost: int) -> bool:
    """Return whether the leader knows that the *lost* member is silent."""
    status: dict[str, Any] = ring.look(leader)["members"][leader]["status"] or {}
    return status.get("silent") == [lost]


@pytest.mark.parametrize(("lost", "leader"), [(2, 0), pytest.param(0, 1, marks=pytest.mark.nightly)])
def test_without_one_member_nothing_is_answered_and_producers_go_on_by_themselves(
    world: World, ring: RingSite, lost: int, leader: int
) -> None:
    heard = world.subscribe("tokyo")
    ring.led_by(0)
    with ring.producer("meter") as producer:
        assert producer.send([(b"before", ["tokyo"])], timeout=120).seq == 1
        assert [ring.log(rank) for rank in RANKS] == [[b"before"]] * 3
        ring.kill(lost)
        waiting = producer.submit([(b"after", ["tokyo"])])
        eventually(lambda: misses(ring, leader, lost), timeout=120, interval=0.2)
        with RawProducer(ring.members[leader]) as other:
            (refused,) = other.send([request(1, b"no", producer="other")])
        assert refused.refusal.kind == pb.ProduceRefusal.NO_FOLLOWER
        words = f"rank {lost} is silent, and acknowledging_followers is 2, so the ring takes no entries"
        assert words in refused.refusal.reason
        code, told = ring.lrq("ring", "status", rank=leader)
        assert code == 3
        assert f"rank {lost}" in told
        assert not waiting.done()
        assert b"no" not in ring.log(leader)
        ring.begin(lost)
        assert waiting.result(180).position.seq == 2
        assert [ring.log(rank) for rank in RANKS] == [[b"before", b"after"]] * 3
    eventually(lambda: heard.log("paris") == [b"before", b"after"], timeout=120)
    assert heard.kinds("paris") == ["log 2"]


def test_after_the_loss_of_two_disks_the_third_server_alone_sends_every_answered_entry(
    world: World, ring: RingSite
) -> None:
    ring.led_by(0)
    payloads = [b"%d" % number for number in range(10)]
    with ring.producer("meter") as producer:
        producer.send([(payloads[0], ["tokyo"])], timeout=120)
        for payload in payloads[1:]:
            producer.send([(payload, ["tokyo"])], timeout=120)
        for rank in RANKS:
            ring.kill(rank)
    for file in [*ring.folder.glob("[01].db*"), ring.witness(0), ring.witness(1)]:
        file.unlink()
    assert ring.log(2) == payloads
    text = ring.config(2).read_text()
    ring.config(2).write_text(text[: text.index("[ring]")])
    ring.begin(2)
    heard = world.subscribe("tokyo")
    eventually(lambda: ring.lrq("drain", "--applied", "--timeout", "5", rank=2)[0] == 0, timeout=120)
    eventually(lambda: heard.log("paris") == payloads)
