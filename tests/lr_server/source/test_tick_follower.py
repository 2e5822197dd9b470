"""A follower publishes the ticks of another server: each once, in order, and none that its feed cannot continue."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from lr_client import RoutingQueueSenderClient
from lr_server.feed.feed import Behind, LiveFeed
from lr_server.source.tick_follower import TickFollower
from queues.clock import SYSTEM_CLOCK
from queues.database import leases
from queues.positions import Tick
from queues.send_log.opening import open_log
from queues.send_log.port import TickLimits
from queues.send_log.wakeup import Wakeup
from tests.lr_server.feed.ticks import owed
from tests.waiting import eventually

LIMITS = TickLimits(rows=4, payload_bytes=1_000)


class Sequencing:
    """Site `paris`, whose ticks the test takes."""

    def __init__(self, site: Engine) -> None:
        self.site = site
        self.log = open_log(site, LIMITS)
        lease = leases.acquire(site, "server", "test", ttl=600)
        assert lease is not None
        self.lease = lease

    def tick(self, *payloads: bytes) -> Tick:
        with Session(self.site) as session, session.begin():
            for payload in payloads:
                RoutingQueueSenderClient("policy").transmit_log_entry_message(session, payload, ["tokyo"])
        taken = self.log.take_tick(self.lease, self.log.bounds().newest)
        assert taken is not None
        return taken.tick


@pytest.fixture
def sequencing(site: Engine) -> Iterator[Sequencing]:
    made = Sequencing(site)
    yield made
    made.log.close()


@pytest.fixture
def follow(site: Engine) -> Iterator[Callable[[int], LiveFeed]]:
    """Give a function that follows the site in a feed of so many bytes; each call ends the earlier follower."""
    running: list[TickFollower] = []

    def begin(feed_bytes: int = 10**6) -> LiveFeed:
        feed = LiveFeed(feed_bytes, "smart", SYSTEM_CLOCK)
        follower = TickFollower(
            site, open_log(site, LIMITS), feed, limits=LIMITS, feed_bytes=feed_bytes, wakeup=Wakeup("test"),
            clock=SYSTEM_CLOCK, idle_seconds=0.02, on_ended=lambda _error: None,
        )  # fmt: skip
        running.append(follower)
        follower.start()
        return feed

    yield begin
    for follower in running:
        follower.stop()


def in_feed(feed: LiveFeed, after: int) -> list[Tick] | None:
    """Return the ticks of the feed after a sequence number; None if the feed does not reach back so far."""
    found = feed.after(owed(), after)
    return None if isinstance(found, Behind) else [each.tick for each in found.ticks]


def test_each_tick_is_published_once_in_order_with_its_rows(
    sequencing: Sequencing, follow: Callable[[], LiveFeed]
) -> None:
    first = sequencing.tick(b"before")
    feed = follow()
    eventually(lambda: feed.newest == first)
    later = [sequencing.tick(b"%d" % number, b"again") for number in range(9)]
    eventually(lambda: feed.newest == later[-1])
    assert in_feed(feed, first.end_seq) == later
    found = feed.after(owed(), first.end_seq)
    assert not isinstance(found, Behind)
    rows = [each.routed(owed()).block for each in found.ticks]
    assert [block.rows for block in rows if block is not None] == [2] * 9


def test_the_ticks_from_before_the_beginning_are_left_to_the_database(
    sequencing: Sequencing, follow: Callable[[], LiveFeed]
) -> None:
    newest = [sequencing.tick(b"1"), sequencing.tick(b"2")][-1]
    feed = follow()
    eventually(lambda: feed.newest == newest)
    assert in_feed(feed, 0) is None
    assert in_feed(feed, newest.end_seq) == []


def test_the_first_tick_of_a_site_is_published(sequencing: Sequencing, follow: Callable[[], LiveFeed]) -> None:
    feed = follow()
    tick = sequencing.tick(b"1")
    eventually(lambda: feed.newest == tick)


def test_a_large_tick_is_told_without_its_rows(sequencing: Sequencing, follow: Callable[[], LiveFeed]) -> None:
    first = sequencing.tick(b"before")
    feed = follow()
    eventually(lambda: feed.newest == first)
    large = sequencing.tick(*[b"x"] * 20)
    eventually(lambda: feed.newest == large)
    found = feed.after(owed(), first.end_seq)
    assert not isinstance(found, Behind)
    assert [(each.tick, each.is_held) for each in found.ticks] == [(large, False)]


def test_a_tick_that_the_source_has_lost_leaves_the_feed(
    sequencing: Sequencing, follow: Callable[[], LiveFeed]
) -> None:
    first = sequencing.tick(b"1")
    feed = follow()
    eventually(lambda: feed.newest == first)
    lost = sequencing.tick(b"2")
    eventually(lambda: feed.newest == lost)
    # As a promotion to a standby without the newest commit does.
    with Session(sequencing.site) as session, session.begin():
        session.execute(text("DELETE FROM lrq_ticks WHERE number = :number"), {"number": lost.number})
    instead = sequencing.tick(b"3")
    assert (instead.number, instead.start_seq) == (lost.number, first.end_seq)
    eventually(lambda: feed.newest == instead)
    assert in_feed(feed, first.end_seq) is None
    assert in_feed(feed, instead.end_seq) == []
