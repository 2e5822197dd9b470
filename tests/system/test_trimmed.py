"""A site that was away while the log was trimmed: a full sync if it lost something, and only then."""

import pytest

from queues.log import segments, tick_slots
from tests.system.world import Messages, World, in_log_sync, sessions_of
from tests.waiting import eventually

BEGUN = ["start 1", "snapshot 1", "complete 1", "log 1"]


class Region:
    """Paris sends to tokyo and lima; lima's server stops, the log goes on and is trimmed, lima comes back."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.provider = Messages(lambda context: [f"state for {context.destination}".encode()])
        world.provide("paris", self.provider)
        self.tokyo, self.lima = world.subscribe("tokyo"), world.subscribe("lima")
        world.server("tokyo", listen=[])
        self.away = world.server("lima", listen=[])
        self.paris = world.server(
            "paris", listen=[], peers={"tokyo": "local:tokyo", "lima": "local:lima"}, segment_bytes=1,
            retention_seconds=1e-6, retry_cap_seconds=0.1,
        )  # fmt: skip
        in_log_sync(self.paris, "tokyo", "lima")
        self.send(b"before", "tokyo", "lima")
        eventually(lambda: self.tokyo.kinds("paris") == self.lima.kinds("paris") == BEGUN)
        self.paris.drain(timeout=20)

    def send(self, payload: bytes, *to: str) -> None:
        self.world.transmit("paris", payload, to=to)

    def lose(self) -> None:
        self.away.stop()
        self.send(b"noticed", "tokyo")
        eventually(lambda: sessions_of(self.paris)["lima"]["state"] == "backing off")

    def restart(self) -> None:
        """Start the source again, with more patience: nothing of what follows is to be lost."""
        self.paris.stop()
        self.paris = self.world.server(
            "paris", listen=[], peers={"tokyo": "local:tokyo", "lima": "local:lima"}, segment_bytes=1
        )
        in_log_sync(self.paris, "tokyo")

    def trim(self) -> None:
        """Empty every segment but the newest, once tokyo has all of them."""
        for number in range(3):
            self.send(f"rest {number}".encode(), "tokyo")
            eventually(lambda number=number: self.tokyo.log("paris")[-1:] == [f"rest {number}".encode()])
            eventually(lambda: sessions_of(self.paris)["tokyo"]["lag"]["entries"] == 0)
            self.paris._source.trim()

    def come_back(self) -> None:
        self.world.server("lima", listen=[])
        in_log_sync(self.paris, "lima")
        self.send(b"after", "lima")
        eventually(lambda: self.lima.log("paris")[-1:] == [b"after"])


@pytest.fixture
def region(world: World) -> Region:
    return Region(world)


def test_what_it_missed_was_trimmed_so_it_gets_one_full_sync(region: Region) -> None:
    region.lose()
    region.send(b"missed", "lima")
    region.trim()
    region.provider.served.clear()
    region.come_back()
    assert region.lima.kinds("paris") == BEGUN * 2
    assert region.lima.snapshot("paris")[-1] == b"state for lima"
    assert b"missed" not in region.lima.log("paris")
    assert region.provider.served == ["lima"]
    assert region.tokyo.kinds("paris") == [*BEGUN[:3], "log 5"]


def test_a_sink_that_was_put_back_behind_what_was_trimmed_gets_one_full_sync(region: Region) -> None:
    ((seq,),) = region.world.execute("lima", "SELECT seq FROM lrq_receive_marks")
    region.send(b"to be lost", "tokyo", "lima")
    eventually(lambda: region.lima.log("paris") == [b"before", b"to be lost"])
    region.paris.drain(timeout=20)
    region.lose()
    # What an older copy of the database says.
    region.world.execute("lima", "DELETE FROM lrq_receive_headers WHERE seq > :seq", seq=seq)
    region.world.execute("lima", "UPDATE lrq_receive_marks SET seq = :seq, boundary_seq = :seq", seq=seq)
    region.world.execute("lima", "UPDATE lrq_consumers SET seq = :seq", seq=seq)
    region.trim()
    region.come_back()
    assert region.lima.kinds("paris") == [*BEGUN[:3], "log 2", *BEGUN]


def test_only_others_entries_were_trimmed_so_it_gets_none(region: Region) -> None:
    region.lose()
    region.trim()
    assert region.paris.status()["log"]["trimmed_seq"] > 1
    region.provider.served.clear()
    region.come_back()
    assert region.lima.log("paris") == [b"before", b"after"]
    assert region.lima.kinds("paris") == [*BEGUN[:3], "log 2"]
    assert region.provider.served == []


def test_it_has_what_was_trimmed_so_neither_a_restart_nor_many_ticks_in_between_ask_for_one(
    region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "KEPT_TICKS", 0)
    monkeypatch.setattr(tick_slots, "TICKS_A_SLOT", 1)
    region.lose()
    region.trim()
    region.restart()
    region.trim()
    region.provider.served.clear()
    region.come_back()
    assert region.lima.log("paris") == [b"before", b"after"]
    assert region.lima.kinds("paris") == [*BEGUN[:3], "log 2"]
    assert region.provider.served == []
