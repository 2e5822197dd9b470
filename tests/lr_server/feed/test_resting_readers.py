"""Readers that rest on the live feed: a tick with rows wakes them, and no row is ever passed over."""

import os
import random
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lr_server.feed.feed import Behind, LiveFeed, Ready
from lr_server.feed.routed_tick import RoutedTick
from lr_server.feed.throttle import FlowControl
from queues.blocks import decode_entries
from queues.clock import SYSTEM_CLOCK
from queues.names import SiteId
from queues.send_log.port import SessionKey, TickRows
from tests.lr_server.feed.ticks import LIMA, TOKYO, group, owed, row
from tests.lr_server.feed.waiting import after
from tests.waiting import eventually

#: The numbers of the sets in `ticks.SETS`.
FOR_TOKYO, FOR_LIMA, FOR_BOTH = 1, 2, 3
LARGE = 1_000_000
SMALL = 1_000


def feed_of(limit: int = LARGE, policy: FlowControl = "smart") -> LiveFeed:
    feed = LiveFeed(limit, policy, SYSTEM_CLOCK)
    feed.begin(None)
    return feed


def tick(number: int, tag_set: int, client: str = "policy") -> TickRows:
    return group(number, row(number, tag_set=tag_set, client=client))


@contextmanager
def resting(feed: LiveFeed, who: SessionKey, seq: int = 0, timeout: float = 60) -> Iterator[list[Ready | Behind]]:
    """Let a session rest in another thread; give the list of its answers, which is complete after the block."""
    found: list[Ready | Behind] = []
    thread = threading.Thread(target=lambda: found.append(after(feed, who, seq, timeout, rests=True)))
    thread.start()
    try:
        eventually(lambda: who in feed._readers and feed._readers[who].rests)
        yield found
    finally:
        if not found:
            feed.leave(who)
        thread.join(20)


def numbers(found: Ready | Behind) -> list[int]:
    assert isinstance(found, Ready)
    return [each.tick.number for each in found.ticks]


def payloads(found: Ready | Behind, who: SessionKey) -> list[bytes]:
    assert isinstance(found, Ready)
    blocks = [each.routed(who).block for each in found.ticks]
    return [payload for block in blocks if block is not None for payload in decode_entries(block, LARGE).payloads]


def test_the_last_call_of_an_ended_stream_leaves_the_next_one_waiting() -> None:
    feed = feed_of()
    rung = threading.Event()
    feed.after(owed(LIMA), 0, ring=rung.set, rests=True)
    assert feed.after(owed(LIMA), 0, lambda: False) == Ready(())
    feed.publish(tick(1, FOR_LIMA))
    assert rung.is_set()


def test_ticks_for_others_wake_no_resting_reader_and_its_own_tick_does() -> None:
    feed = feed_of()
    with resting(feed, owed(LIMA)) as found:
        for number in (1, 2, 3):
            feed.publish(tick(number, FOR_TOKYO))
        feed.publish(tick(4, FOR_LIMA, client="other"))
        assert feed._readers[owed(LIMA)].rests
        feed.publish(tick(5, FOR_BOTH))
        eventually(lambda: found)
    assert numbers(found[0]) == [4, 5]
    assert payloads(found[0], owed(LIMA)) == [b"entry 5"]


def test_a_reader_that_does_not_rest_is_woken_by_every_tick() -> None:
    feed = feed_of()
    found: list[Ready | Behind] = []
    reader = threading.Thread(target=lambda: found.append(after(feed, owed(LIMA), 0, 60)))
    reader.start()
    eventually(lambda: feed._readers)
    feed.publish(tick(1, FOR_TOKYO))
    reader.join(20)
    assert numbers(found[0]) == [1]


def test_a_rest_that_ends_by_its_time_gives_the_last_tick_that_has_passed() -> None:
    feed = feed_of()
    # A busy machine may stand still for seconds before the ticks come.
    with resting(feed, owed(LIMA), timeout=5) as found:
        with feed._changed:
            for number in (1, 2, 3):
                feed.publish(tick(number, FOR_TOKYO))
        eventually(lambda: found)
    assert numbers(found[0]) in ([3], [1, 2, 3])
    assert payloads(found[0], owed(LIMA)) == []


def test_no_tick_passes_over_a_reader_that_was_woken_and_has_not_run_yet() -> None:
    feed = feed_of()
    with resting(feed, owed(LIMA)) as found:
        # The lock is held, so that the reader cannot run between the two ticks.
        with feed._changed:
            feed.publish(tick(1, FOR_LIMA))
            feed.publish(tick(2, FOR_TOKYO))
        eventually(lambda: found)
    assert numbers(found[0]) == [1, 2]
    assert payloads(found[0], owed(LIMA)) == [b"entry 1"]


def test_a_tick_above_the_limits_wakes_every_resting_reader() -> None:
    feed = feed_of()
    with resting(feed, owed(LIMA)) as found:
        feed.publish(TickRows(tick(1, FOR_TOKYO).tick, None, {}))
        eventually(lambda: found)
    assert numbers(found[0]) == [1]
    assert not found[0].ticks[0].is_held  # type: ignore[union-attr]


@pytest.mark.parametrize("policy", ["cascade", "drop", "smart"])
def test_a_full_feed_waits_for_no_resting_reader_which_is_never_behind(policy: FlowControl) -> None:
    feed = feed_of(2 * SMALL, policy)
    with resting(feed, owed(LIMA)) as found:
        for number in range(1, 20):
            feed.publish(tick(number, FOR_TOKYO))
        assert feed._ticks[0].tick.number > 1
        feed.publish(tick(20, FOR_LIMA))
        eventually(lambda: found)
    assert numbers(found[0]) == [19, 20]


def test_a_feed_that_begins_anew_forgets_the_ticks_that_have_passed() -> None:
    feed = feed_of()
    with resting(feed, owed(LIMA)) as found:
        with feed._changed:
            feed.publish(tick(1, FOR_TOKYO))
            feed.begin(None)
        eventually(lambda: found)
    assert numbers(found[0]) == []


@pytest.mark.parametrize("limit", [LARGE, 3 * SMALL], ids=["all in memory", "often behind"])
def test_sessions_that_rest_at_random_get_exactly_their_rows(limit: int) -> None:
    seed = int(os.environ.get("LRQ_TEST_SEED", secrets.randbits(32)))
    print(f"LRQ_TEST_SEED={seed}")
    chance = random.Random(seed)
    chosen = [chance.choice([FOR_TOKYO, FOR_TOKYO, FOR_TOKYO, FOR_LIMA, FOR_BOTH]) for _ in range(600)]
    ticks = [tick(number, tag_set) for number, tag_set in enumerate(chosen, start=1)]
    feed, got = feed_of(limit, "drop"), {site: list[bytes]() for site in (TOKYO, LIMA)}
    published: list[TickRows] = []

    def read(site: SiteId, chance: random.Random) -> None:
        seq, who = 0, owed(site)
        while seq < len(ticks):
            found = after(feed, who, seq, 0.05, rests=chance.random() < 0.8)
            if isinstance(found, Behind):
                # All published ticks are in the database.
                found = Ready(tuple(_alone(each) for each in published if each.tick.start_seq >= seq))
            for each in found.ticks:
                assert each.tick.end_seq > seq
                got[site] += payloads(Ready((each,)), who)
                seq = each.tick.end_seq
            if chance.random() < 0.1:
                feed.leave(who)

    readers = [threading.Thread(target=read, args=(site, random.Random(seed + len(site)))) for site in got]
    for reader in readers:
        reader.start()
    for each in ticks:
        if chance.random() < 0.1:
            eventually(lambda: any(reader.rests for reader in list(feed._readers.values())))
        published.append(each)
        feed.publish(each)
    for reader in readers:
        reader.join(60)
    for site, theirs in ((TOKYO, (FOR_TOKYO, FOR_BOTH)), (LIMA, (FOR_LIMA, FOR_BOTH))):
        wanted = [b"entry %d" % number for number, tag_set in enumerate(chosen, start=1) if tag_set in theirs]
        assert got[site] == wanted


def _alone(rows: TickRows) -> RoutedTick:
    feed = feed_of()
    feed.publish(rows)
    return feed._ticks[0]
