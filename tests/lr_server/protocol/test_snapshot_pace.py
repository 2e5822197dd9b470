"""Snapshots of a server give way to live entries, as far as these take longer beside them than alone."""

import itertools
from statistics import fmean

import pytest

from lr_server.protocol.snapshot_pace import SnapshotPace

FRAME = 1_000_000


class Server:
    """A server with a frame of a snapshot every *step* seconds at full speed, and 100 live entries a second.

    `beside` and `alone` are the delays of the entries, in seconds.
    """

    def __init__(self, *, step: float = 0.02, alone: float = 0.005, beside: float = 0.005) -> None:
        self.pace = SnapshotPace()
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


def test_live_entries_that_take_as_long_as_alone_cost_a_snapshot_only_its_rests():
    server = Server()
    server.rest_of(5)
    assert server.send(60) > 0.95 * FRAME / server.step
    assert server.pace.rate is None


def test_a_snapshot_that_delays_live_entries_goes_slower_but_never_below_its_floor():
    server = Server(alone=0.005, beside=0.050)
    server.rest_of(5)
    server.send(5)
    rate = server.send(30)
    assert 0.08 * FRAME / server.step < rate < 0.2 * FRAME / server.step


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
    assert server.pace.rate is not None


def test_entries_that_are_slow_also_alone_do_not_keep_a_snapshot_slow():
    server = Server(alone=0.005, beside=0.050)
    server.rest_of(5)
    server.send(10)
    server.alone = server.beside
    server.send(60)
    assert server.pace.rate is None


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


def test_a_snapshot_that_begins_after_another_is_measured_from_its_beginning():
    pace = SnapshotPace()
    for number in range(40):
        pace.note_entry("tokyo", 999.995 + number / 10, 1_000 + number / 10)
    pace.pause(1_005.0)
    pace.note_sent("lima", FRAME, 1_006.0)
    pace.note_all_acknowledged("lima", 1_006.1)
    pace.note_sent("lima", 10 * FRAME, 1_046.0)
    for number in range(40):
        pace.note_entry("tokyo", 1_046 + number / 100, 1_046.1 + number / 100)
    pace.pause(1_046.5)
    assert pace.rate == pytest.approx(0.7 * 10 * FRAME / 0.5)


def test_each_session_is_compared_with_itself_so_a_far_site_hides_no_harm_to_a_near_one():
    pace = SnapshotPace()
    for number in range(40):
        now = 1_000 + number / 10
        pace.note_entry("near", now - 0.005, now)
        pace.note_entry("far", now - 0.2, now)
    pace.pause(1_005.0)
    pace.note_sent("lima", FRAME, 1_006.0)
    for number in range(40):
        now = 1_006 + number / 100
        pace.note_entry("near", now - 0.02, now)
        pace.note_entry("far", now - 0.2, now)
    pace.pause(1_006.5)
    assert pace.rate is not None


def test_an_entry_that_begins_soon_after_a_frame_is_not_alone():
    pace = SnapshotPace()
    pace.note_entry("tokyo", 999.9, 1_000.0)
    pace.pause(1_000.0)
    for second in range(1_001, 1_041):
        # The frame is acknowledged just before each entry begins.
        pace.note_sent("lima", FRAME, second - 0.2)
        pace.note_all_acknowledged("lima", second - 0.1)
        pace.note_entry("tokyo", second - 0.005, second)
    # So the delays alone are still not known, and the snapshots rest again.
    assert pace.rate is None
    assert pace.pause(1_040.0) == pytest.approx(0.5)
