"""The planning of segments, in simulated time: how long entries are kept for a site that never acknowledges."""

import random
from dataclasses import dataclass, field

import pytest

from queues.database.tables.log import PARTITIONS
from queues.send_log.port import Retention
from queues.send_log.rotation import SegmentLimits, leaves_room, share, trim_pause

DAY = 86_400.0


@dataclass
class Simulation:
    """A log with few partitions, for a site that is gone. Every run of trim rotates first, as the server does."""

    retention: Retention
    limits: SegmentLimits
    now: float = 0.0
    written: int = 0
    opened: tuple[float, int] = (0.0, 0)
    # Of each closed segment: its beginning and its end, each as time and bytes written until then.
    closed: list[tuple[tuple[float, int], tuple[float, int]]] = field(default_factory=list)
    #: The age and the size of the oldest entry of each trimmed segment, as shares of retention.
    shares: list[float] = field(default_factory=list)
    kept_seconds: list[float] = field(default_factory=list)

    def run(self, pause: float, size: int) -> None:
        self.now += pause
        self.written += size
        here = (self.now, self.written)
        limits = self.limits.within(self.retention)
        due = self.now - self.opened[0] >= limits.seconds or self.written - self.opened[1] >= limits.payload_bytes
        if due and len(self.closed) < PARTITIONS - 1:
            oldest = self.since(self.closed[0][1]) if self.closed else 0.0
            if leaves_room(oldest, PARTITIONS - 2 - len(self.closed)):
                self.closed.append((self.opened, here))
                self.opened = here
        while self.closed and self.since(self.closed[0][1]) > 1:
            begin, _ = self.closed.pop(0)
            self.shares.append(self.since(begin))
            self.kept_seconds.append(self.now - begin[0])

    def since(self, place: tuple[float, int]) -> float:
        return share(self.now - place[0], self.written - place[1], self.retention)


@pytest.mark.parametrize("seconds", [12.0, 120.0, 7 * DAY])
@pytest.mark.parametrize("segment_seconds", [1.0, 60.0, 30 * DAY])
def test_entries_are_kept_for_retention_and_at_most_a_quarter_longer(seconds: float, segment_seconds: float) -> None:
    retention = Retention(seconds=seconds, unknown_seconds=DAY)
    pause = trim_pause(5.0, retention)
    simulation = Simulation(retention, SegmentLimits(segment_seconds, 64 * 1024**2))
    for _ in range(min(int(6 * seconds / pause), 30_000)):
        simulation.run(max(pause, 6 * seconds / 30_000), 100)
    assert len(simulation.kept_seconds) > 10
    assert min(simulation.kept_seconds) > seconds
    assert max(simulation.kept_seconds) <= 1.25 * seconds


@pytest.mark.parametrize("seed", range(20))
def test_bursts_keep_entries_at_most_a_third_beyond_retention_by_age_and_by_size(seed: int) -> None:
    chance = random.Random(seed)
    retention = Retention(seconds=1_200.0, payload_bytes=1_000_000)
    simulation = Simulation(retention, SegmentLimits(60.0, 10_000))
    for _ in range(4_000):
        simulation.run(trim_pause(5.0, retention), chance.choice([0, 100, 1_000, 20_000]))
    assert len(simulation.shares) > 10
    # Age and size take turns as the limit, so their delays add up.
    assert max(simulation.shares) <= 4 / 3


def test_a_rotation_that_leaves_too_little_room_waits_until_the_oldest_segment_is_older() -> None:
    assert leaves_room(0.0, 5)
    assert not leaves_room(0.0, 4)
    assert leaves_room(0.2, 4)
    assert not leaves_room(0.8, 0)
    assert leaves_room(0.85, 0)


def test_a_log_without_retention_keeps_its_limits() -> None:
    limits = SegmentLimits(60.0, 1_000)
    assert limits.within(None) == limits
    assert limits.within(Retention(seconds=12.0)) == SegmentLimits(2.0, 1_000)
    assert limits.within(Retention(payload_bytes=600)) == SegmentLimits(60.0, 100)


def test_trim_runs_often_enough_for_a_short_retention() -> None:
    assert trim_pause(5.0, Retention()) == 5.0
    assert trim_pause(5.0, Retention(seconds=12.0)) == pytest.approx(0.3)
    assert trim_pause(5.0, Retention(unknown_seconds=40.0)) == pytest.approx(1.0)
    assert trim_pause(5.0, Retention(seconds=1e-6)) == 0.1
