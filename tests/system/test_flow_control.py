"""One of three sites stands still: the live feed's rule for the others, and all entries once at the end."""

from collections.abc import Iterable

import pytest

from lr_server import LogReplicationServer
from lr_server.feed.feed import LiveFeed
from tests.shifted_clock import ShiftedClock
from tests.system.faulty import StillSink
from tests.system.world import Recorder, World, in_log_sync, sessions_of
from tests.waiting import eventually

SITES = ("kyoto", "lima", "tokyo")
#: Far more than the feed holds; each entry is a tick of its own.
SENT = [b"%03d " % number + b"x" * 1_000 for number in range(40)]
FIRST = b"first"
FEED_BYTES = 10_000
STALL_SECONDS = 600.0


class Region:
    """A source with three sinks, each of which can stand still; all have the first entry and read the feed."""

    def __init__(self, world: World, policy: str) -> None:
        self.world = world
        self.clock = ShiftedClock()
        self.sinks = {site: world.behind(site, StillSink) for site in SITES}
        self.recorders: dict[str, Recorder] = {site: world.subscribe(site) for site in SITES}
        self.paris: LogReplicationServer = world.server(
            "paris", listen=[], peers={site: f"local:{site}" for site in SITES}, clock=self.clock,
            initial_sync="log", flow_control=policy, feed_bytes=FEED_BYTES, tick_rows=1, stall_seconds=STALL_SECONDS,
        )  # fmt: skip
        world.transmit("paris", FIRST, to=SITES)
        for recorder in self.recorders.values():
            eventually(lambda recorder=recorder: recorder.log("paris") == [FIRST])
        in_log_sync(self.paris, *SITES)
        eventually(lambda: len(self.feed._readers) == len(SITES))

    @property
    def feed(self) -> LiveFeed:
        assert self.paris._source is not None
        return self.paris._source.feed

    def transmit(self) -> None:
        for payload in SENT:
            self.world.transmit("paris", payload, to=SITES)

    def waits(self) -> bool:
        """Return whether the feed is full and waits for a session."""
        with self.feed._changed:
            return self.feed._size > FEED_BYTES and self.feed._must_wait()

    def oldest_seq(self) -> int:
        """Return the sequence number before the oldest tick of the feed."""
        with self.feed._changed:
            return self.feed._ticks[0].tick.start_seq

    def gets_all(self, *sites: str) -> None:
        for site in sites:
            eventually(lambda log=self.recorders[site].log: log("paris")[-1:] == SENT[-1:])
            assert self.recorders[site].log("paris") == [FIRST, *SENT]

    def gets_what_was_read(self, sites: Iterable[str]) -> int:
        """Wait until *sites* have the ticks that the source has taken; return the number of their entries."""
        newest = self.feed.newest
        assert newest is not None
        for site in sites:
            eventually(lambda log=self.recorders[site].log: log("paris") == [FIRST, *SENT][: newest.end_seq])
        return newest.end_seq


@pytest.mark.nightly
def test_with_cascade_the_others_wait_for_the_site_and_no_longer_than_stall_seconds(world: World) -> None:
    region = Region(world, "cascade")
    tokyo = region.sinks["tokyo"]
    tokyo.stand_still()
    region.transmit()
    eventually(region.waits)
    assert region.gets_what_was_read(["kyoto", "lima"]) < 1 + len(SENT)
    assert region.waits()
    eventually(lambda: tokyo.held == 1)
    assert tokyo.given_up == 0
    region.clock.shift += STALL_SECONDS
    region.gets_all("kyoto", "lima")
    assert tokyo.stands_still
    # The thread in the sink counts a moment after the source has closed the connection.
    eventually(lambda: tokyo.given_up == 1)
    tokyo.go_on()
    region.gets_all(*SITES)


def test_with_cascade_the_others_go_on_as_soon_as_the_site_does(world: World) -> None:
    region = Region(world, "cascade")
    tokyo = region.sinks["tokyo"]
    tokyo.stand_still()
    region.transmit()
    eventually(region.waits)
    tokyo.go_on()
    region.gets_all(*SITES)
    assert tokyo.given_up == 0


@pytest.mark.parametrize("policy", ["drop", "smart"])
def test_with_drop_and_smart_the_site_leaves_the_feed_and_the_others_get_all(world: World, policy: str) -> None:
    region = Region(world, policy)
    tokyo = region.sinks["tokyo"]
    tokyo.stand_still()
    region.transmit()
    region.gets_all("kyoto", "lima")
    # The connection was not given up: the feed has gone on without the site, which now needs the database.
    eventually(lambda: tokyo.held == 1)
    assert tokyo.given_up == 0
    assert sessions_of(region.paris)["tokyo"]["lag"]["entries"] == len(SENT)
    assert region.oldest_seq() > 1
    tokyo.go_on()
    region.gets_all(*SITES)
    assert tokyo.given_up == 0


def test_with_smart_the_source_waits_while_most_sites_stand_still(world: World) -> None:
    region = Region(world, "smart")
    still = [region.sinks[site] for site in ("lima", "tokyo")]
    for sink in still:
        sink.stand_still()
    region.transmit()
    eventually(region.waits)
    assert region.gets_what_was_read(["kyoto"]) < 1 + len(SENT)
    assert region.waits()
    region.clock.shift += STALL_SECONDS
    region.gets_all("kyoto")
    eventually(lambda: [sink.given_up for sink in still] == [1, 1])
    for sink in still:
        sink.go_on()
    region.gets_all(*SITES)
