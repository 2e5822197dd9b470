"""A ring whose files are trimmed: a lost disk, the next leader, and a snapshot for a late site."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.system.ring_sites import RANKS, RingSite
from tests.system.world import World
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(900)]

#: Each request is a tick, and the newest 256 ticks stay.
REQUESTS = 320


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ring(world: World, tmp_path: Path) -> Iterator[RingSite]:
    with ExitStack() as stack:
        site = RingSite(world, stack, tmp_path)
        site.more, site.more_of_ring = "segment_bytes = 30\ntrim_seconds = 0.2\n", "trim = true\n"
        site.begin_anew()
        yield site


@pytest.mark.nightly
def test_files_forget_acknowledged_entries_and_the_ring_goes_on_with_a_new_disk(world: World, ring: RingSite) -> None:
    heard = world.subscribe("tokyo")
    ring.led_by(0)
    with ring.producer("old") as producer:
        producer.send([(b"old", ["tokyo"])], timeout=120)
    sent = [b"old"]
    with ring.producer("meter") as producer:
        for number in range(REQUESTS):
            producer.send([(b"%d" % number, ["tokyo"])], timeout=120)
            sent.append(b"%d" % number)
        eventually(lambda: heard.log("paris") == sent, timeout=120)
        eventually(lambda: all(ring.trimmed(rank) > 0 for rank in RANKS), timeout=180)
        kept = ring.log(2)
        assert kept == sent[-len(kept) :]
        assert len(kept) < len(sent)
        ring.lose_disk(1)
        ring.begin(1)
        eventually(lambda: ring.look(1)["members"][1]["status"]["role"] == "following", timeout=180, interval=0.2)
        assert ring.trimmed(1) > 0
        assert ring.look(1)["members"][1]["status"]["trimmed"] > 1
        ring.kill(0)
        producer.send([(b"after", ["tokyo"])], timeout=120)
        sent.append(b"after")
        assert ring.look(1)["members"][1]["status"]["leader"] == 1
        eventually(lambda: heard.log("paris") == sent, timeout=120)
    # A site that joins later begins with the log, because no entry for it is trimmed.
    late = world.subscribe("rome")
    ring.join("rome", 1, 2)
    with ring.producer("old") as producer:
        assert producer.last_sequence(timeout=120) == 1
        producer.send([(b"for rome", ["rome"])], timeout=120)
    eventually(lambda: late.log("paris") == [b"for rome"], timeout=120)
    assert heard.kinds("paris") == [f"log {len(sent)}"]
    # Lima begins with a snapshot, which only the leader can order.
    lima = world.subscribe("lima")
    ring.join("lima", 1, 2)
    ring.provide(1, 2, state=b"all up to now")
    for rank in (1, 2):
        code, words = ring.lrq("snapshot", "request", "lima", "--client", "policy", rank=rank)
        assert code == 0, words
    eventually(lambda: lima.kinds("paris") == ["start 1", "snapshot 1", "complete 1"], timeout=120)
    eventually(lambda: f"ask at {ring.members[1]}" in ring.lrq("snapshot", "list", "--json", rank=2)[1], interval=0.2)
    # The next leader has no snapshot, and none is needed: the base of this one is in all files.
    ring.write(0)
    ring.begin(0)
    ring.led_by(0)
    with ring.producer("old") as producer:
        producer.send([(b"for lima", ["lima"])], timeout=120)
    eventually(lambda: lima.log("paris") == [b"for lima"], timeout=120)
    assert lima.snapshot("paris") == [b"all up to now"]
    assert lima.kinds("paris") == ["start 1", "snapshot 1", "complete 1", "log 1"]
    code, words = ring.lrq("trim", rank=0)
    assert "trims by itself" in words, (code, words)
    ring.kill(1)
    ring.kill(2)
    assert "the servers of a ring trim their files" in ring.lrq("trim", rank=2)[1]
