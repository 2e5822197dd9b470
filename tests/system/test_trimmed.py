"""A site that was away while the log was trimmed gets a full sync only if it missed an entry."""

import pytest

from queues.send_log import segments
from queues.send_log import ticks as tick_rows
from queues.send_log.port import Retention
from queues.send_log.trim_plan import plan
from tests.system.world import Messages, World, in_log_sync, sessions_of
from tests.waiting import eventually

BEGUN = ["start 1", "snapshot 1", "complete 1", "log 1"]


class Region:
    """Paris sends to tokyo and lima; lima stops, the log is trimmed, lima comes back."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.provider = Messages(lambda context: [f"state for {context.destination}".encode()])
        world.provide("paris", self.provider)
        self.tokyo, self.lima = world.subscribe("tokyo"), world.subscribe("lima")
        world.server("tokyo", listen=[])
        self.away = world.server("lima", listen=[])
        world.begun("paris", "tokyo", "lima")
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
        """Restart the source with the default retention, so that no later entry is dropped."""
        self.paris.stop()
        self.paris = self.world.server(
            "paris", listen=[], peers={"tokyo": "local:tokyo", "lima": "local:lima"}, segment_bytes=1
        )
        in_log_sync(self.paris, "tokyo")

    def trim(self) -> None:
        """Wait until tokyo has all entries, then empty every segment but the newest."""
        for number in range(3):
            self.send(f"rest {number}".encode(), "tokyo")
            eventually(lambda number=number: self.tokyo.log("paris")[-1:] == [f"rest {number}".encode()])
            eventually(lambda: sessions_of(self.paris)["tokyo"]["lag"]["entries"] == 0)
            eventually(self._is_trimmed)

    def _is_trimmed(self) -> bool:
        # On PostgreSQL a run of trim leaves a segment that another transaction reads at that moment.
        self.paris._source.trim()
        return len(plan(self.world.site("paris"), Retention())) <= 1

    def come_back(self) -> None:
        self.world.server("lima", listen=[])
        in_log_sync(self.paris, "lima")
        self.send(b"after", "lima")
        eventually(lambda: self.lima.log("paris")[-1:] == [b"after"])


@pytest.fixture
def region(world: World) -> Region:
    return Region(world)


def test_a_site_whose_missed_entry_was_trimmed_gets_one_full_sync(region: Region) -> None:
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


def test_a_sink_restored_to_before_the_trimmed_entries_gets_one_full_sync(region: Region) -> None:
    ((seq,),) = region.world.execute("lima", "SELECT seq FROM lrq_receive_marks")
    region.send(b"to be lost", "tokyo", "lima")
    eventually(lambda: region.lima.log("paris") == [b"before", b"to be lost"])
    region.paris.drain(timeout=20)
    region.lose()
    # An older copy of the database has these values.
    region.world.execute("lima", "DELETE FROM lrq_receive_headers WHERE seq > :seq", seq=seq)
    region.world.execute("lima", "UPDATE lrq_receive_marks SET seq = :seq, boundary_seq = :seq", seq=seq)
    region.world.execute("lima", "UPDATE lrq_consumers SET seq = :seq", seq=seq)
    region.trim()
    region.come_back()
    assert region.lima.kinds("paris") == [*BEGUN[:3], "log 2", *BEGUN]


def test_a_site_gets_no_full_sync_if_only_entries_of_others_were_trimmed(region: Region) -> None:
    region.lose()
    region.trim()
    assert region.paris.status()["log"]["trimmed_seq"] > 1
    region.provider.served.clear()
    region.come_back()
    assert region.lima.log("paris") == [b"before", b"after"]
    assert region.lima.kinds("paris") == [*BEGUN[:3], "log 2"]
    assert region.provider.served == []


def test_a_restart_and_many_ticks_cause_no_full_sync_if_the_site_has_the_trimmed_entries(
    region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "KEPT_TICKS", 0)
    monkeypatch.setattr(tick_rows, "TICKS_A_PARTITION", 1)
    region.lose()
    region.trim()
    region.restart()
    region.trim()
    region.provider.served.clear()
    region.come_back()
    assert region.lima.log("paris") == [b"before", b"after"]
    assert region.lima.kinds("paris") == [*BEGUN[:3], "log 2"]
    assert region.provider.served == []


@pytest.mark.nightly
def test_a_snapshot_that_waits_for_its_site_is_sent_once_though_many_ticks_are_trimmed_behind_it(
    region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "KEPT_TICKS", 0)
    monkeypatch.setattr(tick_rows, "TICKS_A_PARTITION", 1)
    region.lose()
    eventually(lambda: region.tokyo.log("paris")[-1:] == [b"noticed"])
    region.provider.served.clear()
    region.world.request_snapshots("paris", "lima")
    ready = "SELECT count(*) FROM lrq_snapshots WHERE state = 'ready'"
    eventually(lambda: region.world.execute("paris", ready) == [(1,)])
    for payload in (b"1", b"2", b"3"):
        region.send(payload, "tokyo")
        eventually(lambda payload=payload: region.tokyo.log("paris")[-1:] == [payload])
        region.trim()
    # The new server has no earlier ticks in memory.
    region.restart()
    region.come_back()
    assert region.lima.kinds("paris") == [*BEGUN, *BEGUN]
    assert region.provider.served == ["lima"]


def test_a_site_that_is_away_does_not_fill_all_partitions_at_once(world: World) -> None:
    world.site("tokyo")
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, segment_bytes=1)
    for number in range(6):
        world.transmit("paris", b"%d" % number, to=["tokyo"])
        eventually(lambda: paris.status()["log"]["waiting"] == 0)
        paris._source.trim()  # type: ignore[union-attr]
    assert len(plan(world.site("paris"), Retention())) == 3
