"""A site on a ring: three server processes keep one log in three files, and the leader sends the log."""

import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from queues.positions import Position
from queues.wire import ingest_pb2 as pb
from tests.faults.standing_still import standing_still
from tests.system.raw_producer import RawProducer, request
from tests.system.ring_sites import RANKS, RingSite
from tests.system.world import Recorder, World
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(600)]


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Undoing(Recorder):
    """Could undo entries, and notes each position to go back to."""

    def __init__(self) -> None:
        super().__init__()
        self.undone: list[Position] = []

    def on_rollback(self, session: Session, source_id: str, position: Position) -> None:
        self.undone.append(position)


@pytest.fixture
def ring(world: World, tmp_path: Path) -> Iterator[RingSite]:
    with ExitStack() as stack:
        site = RingSite(world, stack, tmp_path)
        site.begin_anew()
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


@pytest.mark.nightly
def test_a_leader_that_stood_still_undoes_nothing_of_the_next_one(world: World, ring: RingSite) -> None:
    heard = world.subscribe("tokyo", Undoing())
    with ring.producer("meter") as producer:
        producer.send([(b"one", ["tokyo"])], timeout=120)
        eventually(lambda: heard.log("paris") == [b"one"], timeout=120)
        with standing_still(ring.servers[0].process.pid, f"sqlite:///{ring.database(0)}"):
            producer.send([(b"two", ["tokyo"])], timeout=120)
            eventually(lambda: heard.log("paris") == [b"one", b"two"], timeout=120)
        ring.led_by(0)
        producer.send([(b"three", ["tokyo"])], timeout=120)
    eventually(lambda: heard.log("paris") == [b"one", b"two", b"three"], timeout=120)
    assert heard.kinds("paris") == ["log 3"]
    assert (heard.undone, heard.errors) == ([], [])


def test_a_new_producer_of_the_same_name_learns_its_last_number_at_the_next_leader(ring: RingSite) -> None:
    with ring.producer("meter") as producer:
        producer.send([(b"one", ["tokyo"]), (b"two", ["tokyo"])], timeout=120)
    ring.kill(0)
    with ring.producer("meter") as producer:
        assert producer.last_sequence(timeout=120) == 1
        assert producer.send([(b"three", ["tokyo"])], timeout=120).seq == 3


def test_without_followers_requests_are_refused_and_go_on_by_themselves(world: World, ring: RingSite) -> None:
    heard = world.subscribe("tokyo")
    ring.led_by(0)
    with ring.producer("meter") as producer:
        producer.send([(b"before", ["tokyo"])], timeout=120)
        for rank in (1, 2):
            ring.kill(rank)
        alone = ("fenced", "proposing")
        eventually(lambda: ring.look(0)["members"][0]["status"]["role"] in alone, timeout=120, interval=0.2)
        end = ring.log(0)
        with RawProducer(ring.members[0]) as other:
            (refused,) = other.send([request(1, b"no", producer="other")])
        assert refused.refusal.kind == pb.ProduceRefusal.NO_FOLLOWER
        assert "too few members of the ring answer" in refused.refusal.reason
        waiting = producer.submit([(b"after", ["tokyo"])])
        assert ring.log(0) == end
        ring.begin(2)
        assert waiting.result(180).position.seq == 2
    eventually(lambda: heard.log("paris") == [b"before", b"after"], timeout=120)


@pytest.mark.parametrize("loss", ["disk", pytest.param("backup", marks=pytest.mark.nightly)])
def test_a_member_with_a_lost_disk_or_a_backup_copies_the_log(ring: RingSite, loss: str) -> None:
    with ring.producer("meter") as producer:
        producer.send([(b"one", ["tokyo"])], timeout=120)
        eventually(lambda: ring.log(2) == [b"one"], timeout=120)
        ring.kill(2)
        backup = ring.folder / "backup.db"
        shutil.copy(ring.database(2), backup)
        ring.begin(2)
        producer.send([(b"two", ["tokyo"])], timeout=120)
        eventually(lambda: ring.log(2) == [b"one", b"two"], timeout=120)
        ring.kill(2)
        for file in ring.folder.glob("2.db*"):
            file.unlink()
        if loss == "disk":
            ring.witness(2).unlink()
            ring.new_tables(2)
        else:
            shutil.copy(backup, ring.database(2))
        assert "the ring works already" in ring.lrq("ring", "init", "--key", ring.key, rank=2)[1]
        ring.begin(2)
        assert producer.send([(b"three", ["tokyo"])], timeout=120).seq == 3
        eventually(lambda: ring.log(2) == [b"one", b"two", b"three"], timeout=120)
        eventually(lambda: ring.look(2)["members"][2]["status"]["role"] == "following", timeout=120, interval=0.2)
        eventually(lambda: ring.lrq("ring", "status")[0] == 0, timeout=120, interval=0.2)
        # The copy counts: with it alone the leader goes on.
        ring.kill(1)
        assert producer.send([(b"four", ["tokyo"])], timeout=120).seq == 4
    told = ring.servers[2].log.read_text()
    assert ("begins as a newcomer" in told) == (loss == "backup")


def test_a_site_that_joins_later_gets_the_whole_log(world: World, ring: RingSite) -> None:
    with ring.producer("meter") as producer:
        for number in range(3):
            producer.send([(b"%d" % number, ["rome"])], timeout=120)
        heard = world.subscribe("rome")
        endpoint = world.server("rome", listen=[f"ipc://{ring.folder}/rome"]).endpoints[0]
        ring.sinks["rome"] = endpoint
        for rank in RANKS:
            ring.write(rank)
            ring.servers[rank].process.send_signal(signal.SIGHUP)
        eventually(lambda: heard.log("paris") == [b"0", b"1", b"2"], timeout=120)
        assert heard.kinds("paris") == ["log 3"]


def test_the_status_of_each_member_names_the_leader(ring: RingSite) -> None:
    ring.led_by(0)
    assert "rank 0; `lrq ring status` asks all members" in ring.lrq("status", rank=0)[1]
    assert "this member of the ring does not lead" in ring.lrq("status", rank=1)[1]
    code, words = ring.lrq("ring", "status", rank=1)
    assert (code, words.count("following"), words.count("leading")) == (0, 2, 1)
