"""Snapshots of a server give way to live entries, as far as these take longer beside them than alone."""

import itertools
from collections.abc import Sequence
from statistics import fmean

import pytest

from lr_server.protocol.snapshot_pace import SnapshotPace

FRAME = 1_000_000
#: The bytes a second that snapshots may always send.
LEAST = 4 * 1024 * 1024


class Server:
    """A server with a frame of a snapshot every *step* seconds at full speed, and 100 live entries a second.

    `beside` and `alone` are the delays of the entries, in seconds.
    """

    def __init__(self, *, step: float = 0.02, alone: float = 0.005, beside: float = 0.005) -> None:
        self.pace = SnapshotPace(LEAST)
        self.now = 1_000.0
        self.step, self.alone, self.beside = step, alone, beside
        self.sent: list[float] = []
        self._next_entry = self.now
        self._busy_until = 0.0
        self.is_live = True

    def rest_of(self, seconds: float) -> None:
        """Let time pass without snapshots."""
        end = self.now + seconds
        while self.now < end:
            self._advance(0.01)

    def send(self, seconds: float) -> float:
        """Send a snapshot for *seconds*; return its rate in bytes a second."""
        end, sent = self.now + seconds, 0
        while self.now < end:
            if (pause := self.pace.pause(self.now)) > 0:
                self._advance(min(pause, 0.01))
                continue
            self.pace.note_sent("lima", FRAME, self.now)
            self.sent.append(self.now)
            self._busy_until = self.now + self.step
            self._advance(self.step)
            self.pace.note_all_acknowledged("lima", self.now)
            sent += FRAME
        return sent / seconds

    def _advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self.is_live and self._next_entry <= end:
            self.now = self._next_entry
            delay = self.beside if self.now - self._busy_until < 0.15 else self.alone
            self.pace.note_entry("tokyo", self.now - delay, self.now)
            self._next_entry += 0.01
        self.now = max(self.now, end)
        self._next_entry = max(self._next_entry, self.now)


def test_a_snapshot_without_live_entries_has_no_pause():
    server = Server()
    server.is_live = False
    assert server.send(60) == pytest.approx(FRAME / server.step, rel=0.01)
    assert all(later - sooner < 0.03 for sooner, later in zip(server.sent, server.sent[1:], strict=False))


def test_live_entries_that_take_as_long_as_alone_cost_a_snapshot_only_its_first_seconds():
    server = Server()
    server.rest_of(5)
    server.send(4)
    assert server.send(50) > 0.98 * FRAME / server.step


def test_a_snapshot_that_delays_live_entries_keeps_the_least_limit():
    server = Server(alone=0.005, beside=0.050)
    server.rest_of(5)
    server.send(5)
    rate = server.send(30)
    assert 0.9 * LEAST < rate < 1.1 * LEAST


def test_the_rate_is_as_high_as_the_delay_allows():
    server = Server(alone=0.005)
    server.rest_of(5)
    full = FRAME / server.step
    rates = []
    for _ in range(600):
        # As if half of the machine were left for the snapshot.
        server.beside = 0.005 if (server.pace.rate or full) < full / 2 else 0.050
        rates.append(server.send(0.1))
    assert 0.25 * full < fmean(rates[300:]) < 0.6 * full


def test_a_delay_without_a_measure_of_live_entries_alone_makes_the_snapshot_rest_and_measure():
    server = Server(alone=0.005, beside=0.050)
    server.send(20)
    longest = max(later - sooner for sooner, later in zip(server.sent, server.sent[1:], strict=False))
    assert 0.5 <= longest < 1
    assert server.pace.rate == LEAST


def test_entries_that_are_slow_also_alone_do_not_keep_a_snapshot_slow():
    server = Server(alone=0.005, beside=0.050)
    server.rest_of(5)
    server.send(10)
    server.alone = server.beside
    server.send(60)
    assert server.send(10) > 0.9 * FRAME / server.step


def test_the_limit_ends_with_the_live_entries():
    server = Server(alone=0.005, beside=0.050)
    server.rest_of(5)
    server.send(10)
    server.is_live = False
    server.send(3)
    assert server.send(10) == pytest.approx(FRAME / server.step, rel=0.01)


def test_rests_are_rare():
    server = Server(alone=0.005, beside=0.050)
    server.send(100)
    rests = [later for sooner, later in zip(server.sent, server.sent[1:], strict=False) if later - sooner >= 0.5]
    assert 2 <= len(rests) <= 10
    assert all(later - sooner >= 10 for sooner, later in itertools.pairwise(rests))


def entries(pace: SnapshotPace, session: str, delay: float, since: float, count: int) -> None:
    """Note *count* entries, one every 0.01 s from *since* on, with a *delay* in seconds each."""
    for number in range(count):
        now = since + number / 100
        pace.note_entry(session, now - delay, now)


def test_a_snapshot_that_begins_after_another_is_measured_from_its_beginning():
    pace = SnapshotPace(LEAST)
    entries(pace, "tokyo", 0.005, 1_000.0, 40)
    pace.pause(1_000.5)
    pace.note_sent("lima", FRAME, 1_006.0)
    pace.note_all_acknowledged("lima", 1_006.1)
    pace.note_sent("lima", 10 * FRAME, 1_046.0)
    entries(pace, "tokyo", 0.005, 1_046.0, 40)
    pace.pause(1_046.5)
    assert pace.rate == 2 * LEAST


@pytest.mark.parametrize(("near", "rate"), [(0.005, 2 * LEAST), (0.02, LEAST)])
def test_each_session_is_compared_with_itself_so_a_far_site_hides_no_harm_to_a_near_one(near: float, rate: float):
    pace = SnapshotPace(LEAST)
    entries(pace, "near", 0.005, 1_000.0, 40)
    entries(pace, "far", 0.2, 1_000.0, 40)
    pace.pause(1_000.5)
    pace.note_sent("lima", 10 * FRAME, 1_001.0)
    entries(pace, "near", near, 1_001.0, 40)
    entries(pace, "far", 0.2, 1_001.0, 40)
    pace.pause(1_001.5)
    assert pace.rate == rate


USUAL = 0.005
VARYING = [USUAL, USUAL, USUAL, USUAL, 2.4 * USUAL] * 8


@pytest.mark.parametrize(
    ("alone", "beside", "rate"),
    [
        ([USUAL] * 40, [0.0060] * 40, 2 * LEAST),
        ([USUAL] * 40, [0.0061] * 40, LEAST),
        # On a path whose delays vary by themselves they may vary beside snapshots.
        (VARYING, VARYING, 2 * LEAST),
        # One stall of the machine tells little about the delays alone.
        ([USUAL] * 39 + [1.0], [0.0061] * 40, LEAST),
    ],
)
def test_a_snapshot_gives_way_once_live_entries_take_clearly_longer(
    alone: list[float], beside: list[float], rate: float
):
    pace = SnapshotPace(LEAST)
    note(pace, alone, 1_000.0)
    pace.pause(1_000.5)
    pace.note_sent("lima", 10 * FRAME, 1_001.0)
    note(pace, beside, 1_001.0)
    pace.pause(1_001.5)
    assert pace.rate == rate


def note(pace: SnapshotPace, delays: Sequence[float], since: float) -> None:
    """Note an entry for each of *delays*, one every 0.01 s from *since* on."""
    for number, delay in enumerate(delays):
        now = since + number / 100
        pace.note_entry("tokyo", now - delay, now)


def test_a_limit_that_is_not_reached_does_not_rise():
    pace = SnapshotPace(LEAST)
    entries(pace, "tokyo", 0.005, 1_000.0, 40)
    pace.pause(1_000.5)
    pace.note_sent("lima", FRAME // 2, 1_001.0)
    entries(pace, "tokyo", 0.005, 1_001.0, 40)
    pace.pause(1_001.5)
    assert pace.rate == LEAST


def test_few_live_entries_limit_no_snapshot():
    pace = SnapshotPace(LEAST)
    for second in range(1_000, 1_100):
        pace.note_entry("tokyo", second - 0.5, second)
        pace.note_sent("lima", FRAME, second)
        assert pace.pause(second + 0.1) == 0
    assert pace.rate is None


def test_with_a_floor_of_0_snapshots_never_give_way():
    server = Server(beside=0.5)
    server.pace = SnapshotPace(0)
    server.rest_of(1)
    server.send(5)
    assert server.pace.rate is None
    gaps = {round(later - sooner, 6) for sooner, later in itertools.pairwise(server.sent)}
    assert gaps == {server.step}


def test_an_entry_that_begins_soon_after_a_frame_is_not_alone():
    pace = SnapshotPace(LEAST)
    entries(pace, "lima", 0.005, 999.0, 10)
    pace.pause(1_000.0)
    now = 1_000.0
    for _ in range(100):
        now += 0.2
        # The frame is acknowledged just before the entry begins.
        pace.note_sent("lima", 1, now - 0.1)
        pace.note_all_acknowledged("lima", now - 0.05)
        pace.note_entry("tokyo", now - 0.005, now)
    # So the delays alone are still not known, and the snapshots rest again.
    assert pace.pause(now) == pytest.approx(0.5)
