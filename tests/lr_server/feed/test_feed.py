"""The live feed with one-row ticks: a reader gets every tick after its position, or is behind."""

import threading
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from lr_server.feed import routed_tick, router
from lr_server.feed.feed import Behind, LiveFeed, Ready
from lr_server.feed.held_sets import NAME_BYTES
from lr_server.feed.routed_tick import RoutedTick
from lr_server.feed.router import RoutedRows
from lr_server.feed.throttle import FlowControl
from queues.blocks import decode_entries
from queues.clock import SystemClock
from queues.names import SiteId, site_id
from queues.positions import Visibility
from queues.send_log.port import LogRow, SessionKey
from tests.lr_server.feed.ticks import LIMA, TOKYO, group, owed, row
from tests.lr_server.feed.waiting import after
from tests.waiting import eventually

#: More than the memory of one tick and less than that of two.
ONE_TICK = 2_500
HELD = 4
LAST = 9


class HandClock(SystemClock):
    """A clock whose durations pass only when a test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def feed_of(limit: int, policy: FlowControl = "smart", clock: HandClock | None = None) -> LiveFeed:
    feed = LiveFeed(limit, policy, clock or HandClock())
    feed.begin(None)
    return feed


@pytest.mark.parametrize("rows", [1, 10, 100])
def test_the_counted_size_of_ticks_is_no_less_than_most_of_their_memory(rows: int):
    held: list[RoutedTick] = []
    blocks: list[int] = []
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(200):
            first = 10**9 + number * rows
            made = group(number, *(row(first + at) for at in range(rows)))
            held.append(RoutedTick(made, lambda _, more: blocks.append(more)))
            held[-1].routed(owed(TOKYO))
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert sum(each.size for each in held) + sum(blocks) >= 0.8 * used


def numbers(found: Ready | Behind) -> list[int] | None:
    """Return the numbers of the found ticks; None for a reader that is behind."""
    return None if isinstance(found, Behind) else [each.tick.number for each in found.ticks]


@pytest.fixture
def full() -> LiveFeed:
    """A feed of one-row ticks 1 to LAST that holds only the newest few."""
    feed = feed_of(HELD * ONE_TICK)
    for number in range(1, LAST + 1):
        feed.publish(group(number))
    return feed


def oldest(feed: LiveFeed) -> int:
    return feed._ticks[0].tick.number


@pytest.mark.parametrize("seq", range(LAST + 1))
def test_a_reader_gets_every_tick_after_its_position_or_is_behind(full: LiveFeed, seq: int):
    assert 1 < oldest(full) < LAST
    expected = None if seq + 1 < oldest(full) else list(range(seq + 1, LAST + 1))
    assert numbers(full.after(owed(), seq)) == expected


def test_a_reader_one_row_before_the_oldest_tick_is_behind_and_one_at_its_beginning_is_not(full: LiveFeed):
    begins = full._ticks[0].tick.start_seq
    assert isinstance(full.after(owed(), begins - 1), Behind)
    assert numbers(full.after(owed(), begins)) == list(range(begins + 1, LAST + 1))


def test_a_reader_in_the_middle_of_a_tick_gets_the_rest_of_the_feed_with_that_tick():
    feed = feed_of(9 * ONE_TICK)
    feed.publish(group(1, row(1), row(2), row(3), start=0))
    feed.publish(group(2, row(4), start=3))
    assert [numbers(feed.after(owed(), seq)) for seq in range(5)] == [[1, 2], [1, 2], [1, 2], [2], []]


def test_a_reader_behind_a_feed_that_has_just_begun_reads_the_database():
    feed = feed_of(ONE_TICK)
    feed.begin(group(5).tick)
    assert isinstance(feed.after(owed(), 4), Behind)
    assert numbers(feed.after(owed(), 5)) == []
    assert feed.newest == group(5).tick


def test_a_session_that_is_not_wanted_gets_no_tick_and_is_not_waited_for(full: LiveFeed):
    assert numbers(full.after(owed(), LAST - 1, wanted=lambda: False)) == []
    assert full._readers == {}


def test_a_waiting_reader_gets_the_next_tick_at_once(full: LiveFeed):
    found: list[list[int] | None] = []
    reader = threading.Thread(target=lambda: found.append(numbers(after(full, owed(), LAST, timeout=60))))
    reader.start()
    eventually(lambda: full._readers)
    full.publish(group(LAST + 1))
    reader.join(20)
    assert found == [[LAST + 1]]


def test_a_prepared_tick_reaches_no_reader_before_it_is_published():
    feed = feed_of(9 * ONE_TICK)
    assert numbers(feed.after(owed(), 0)) == []
    feed.prepare(taken := group(1))
    assert numbers(feed.after(owed(), 0)) == []
    assert feed.newest is None
    feed.publish(taken)
    assert numbers(feed.after(owed(), 0)) == [1]


def test_a_tick_that_fails_after_its_preparation_leaves_no_trace():
    feed = feed_of(9 * ONE_TICK)
    feed.after(owed(), 0)
    feed.prepare(group(1, row(1)))
    feed.publish(group(1, row(2)))
    (tick,) = feed.after(owed(), 0).ticks
    assert decode_entries(tick.routed(owed()).block, 1_000).payloads == [b"entry 2"]


def test_the_rows_of_a_prepared_tick_are_encoded_for_its_readers_and_only_once(monkeypatch: pytest.MonkeyPatch):
    encoded: list[int] = []

    def counted(rows: Sequence[LogRow]) -> RoutedRows:
        encoded.append(len(rows))
        return router.encoded(rows)

    monkeypatch.setattr(routed_tick, "encoded", counted)
    feed = feed_of(9 * ONE_TICK)
    feed.after(owed(), 0)
    feed.prepare(taken := group(1))
    assert encoded == [1]
    feed.publish(taken)
    (tick,) = feed.after(owed(), 0).ticks
    assert decode_entries(tick.routed(owed()).block, 1_000).payloads == [b"entry 1"]
    assert encoded == [1]


@pytest.mark.parametrize(("rows", "readers"), [(65, 1), (1, 9)], ids=["many rows", "many readers"])
def test_nothing_is_encoded_before_the_publication_where_that_could_delay_it(rows: int, readers: int):
    feed = feed_of(9 * ONE_TICK)
    for number in range(readers):
        feed.after(owed(client=f"client{number}"), 0)
    feed.prepare(group(1, *(row(number, client="client0") for number in range(1, rows + 1)), start=0))
    assert feed._prepared._blocks == {}


def test_a_prepared_tick_counts_once_in_the_memory_of_the_feed():
    sizes = []
    for prepares in (False, True):
        feed = feed_of(9 * ONE_TICK)
        feed.after(owed(), 0)
        taken = group(1)
        if prepares:
            feed.prepare(taken)
        feed.publish(taken)
        feed.after(owed(), 0).ticks[0].routed(owed())
        sizes.append((feed._size, feed._ticks[0].size))
    assert sizes[0] == sizes[1]


def test_each_session_gets_its_own_rows_of_a_tick():
    feed = feed_of(9 * ONE_TICK)
    feed.publish(group(1, row(1, tag_set=1), row(2, tag_set=2), row(3, tag_set=3), start=0))
    (tick,) = feed.after(owed(), 0).ticks
    blocks = {site: decode_entries(tick.routed(owed(site)).block, 1_000).payloads for site in (TOKYO, LIMA)}
    assert blocks == {TOKYO: [b"entry 1", b"entry 3"], LIMA: [b"entry 2", b"entry 3"]}
    assert tick.routed(owed(client="other")).block is None
    assert decode_entries(tick.routed_after(owed(), Visibility(high=1)).block, 1_000).payloads == [b"entry 3"]
    assert tick.routed_after(owed(), Visibility(high=3)).block is None


@contextmanager
def publishing(feed: LiveFeed, *ticks: int) -> Iterator[threading.Thread]:
    """Publish *ticks* in another thread; at the end of the block the feed waits for no session."""
    thread = threading.Thread(target=lambda: [feed.publish(group(number)) for number in ticks])
    thread.start()
    try:
        yield thread
    finally:
        feed.close()
        thread.join(20)


def stands(feed: LiveFeed) -> bool:
    """Return whether the feed is full and waits for a session."""
    with feed._changed:
        return feed._size > feed._limit and feed._must_wait()


def test_cascade_waits_for_the_slowest_reader_until_it_leaves():
    feed = feed_of(2 * ONE_TICK, "cascade")
    feed.after(owed(), 0)
    with publishing(feed, *range(1, LAST + 1)) as thread:
        eventually(lambda: stands(feed))
        assert feed.newest is not None
        assert feed.newest.number < LAST
        assert oldest(feed) == 1
        feed.leave(owed())
        thread.join(20)
        assert feed.newest.number == LAST


def test_cascade_waits_for_no_reader_that_has_read_the_oldest_tick():
    feed = feed_of(2 * ONE_TICK, "cascade")
    for number in range(1, LAST + 1):
        feed.publish(group(number))
        assert numbers(feed.after(owed(), number)) == []
    assert oldest(feed) > 1


def test_drop_lets_a_reader_leave_that_stands_still():
    feed = feed_of(2 * ONE_TICK, "drop")
    feed.after(owed(), 0)
    for number in range(1, LAST + 1):
        feed.publish(group(number))
    assert isinstance(feed.after(owed(), 0), Behind)


def drained(feed: LiveFeed, number: int, *sessions: SessionKey) -> None:
    """Publish tick *number* and have *sessions* read it."""
    feed.publish(group(number))
    for session in sessions:
        feed.after(session, number)


def test_smart_lets_a_quick_reader_leave_that_suddenly_stands_still(clock: HandClock):
    feed = feed_of(3 * ONE_TICK, "smart", clock)
    quick = [owed(client=name) for name in ("a", "b")]
    still = owed()
    for session in (*quick, still):
        feed.after(session, 0)
    # All sessions have a speed, and read much more than the feed holds within one measurement.
    for number in range(1, 41):
        clock.seconds += 0.07
        drained(feed, number, *quick, still)
    with publishing(feed, *range(41, 61)) as thread:

        def is_over() -> bool:
            # A waiting session reads once for each tick, and not in between.
            for session in quick:
                if feed._readers[session].seq < (newest := feed.newest.end_seq):
                    feed.after(session, newest)
            if stands(feed):
                clock.seconds += 3
            return not thread.is_alive()

        eventually(is_over)
    assert isinstance(feed.after(still, 40), Behind)


def many_names(number: int) -> frozenset[SiteId]:
    """Return a set that takes more memory than several ticks of one row."""
    return frozenset(site_id(f"site-{number}-{name}") for name in range(100))


def test_large_sets_of_destinations_count_in_the_memory_of_the_feed():
    feed = feed_of(9 * ONE_TICK)
    for number in range(1, 10):
        feed.publish(replace(group(number), sets={1: many_names(number)}))
    assert len(feed._ticks) == 1


def test_ticks_that_share_a_set_of_destinations_count_its_names_once():
    feed = feed_of(9 * ONE_TICK + 100 * NAME_BYTES)
    shared = {1: many_names(0)}
    for number in range(1, 30):
        feed.publish(replace(group(number), sets=shared))
    assert len(feed._ticks) > 5
    feed.begin(None)
    assert feed._size == 0
