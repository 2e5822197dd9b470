"""The newest ticks in memory are those of the file, within limits."""

from hypothesis import given
from hypothesis import strategies as st

from lr_server.ring.recent_ticks import MOST_TICKS, RecentTicks
from queues.send_log.ring.tick_contents import LogEnd, TickContent, content_after, empty_end, seal_after
from tests.lr_server.ring.stores import stamp, transaction


def end_of(log: list[TickContent]) -> LogEnd:
    return LogEnd(log[-1].generation, log[-1].tick) if log else empty_end("first")


def grown(log: list[TickContent], size: int) -> list[TickContent]:
    """Return the next tick of *log*, with an entry of *size* bytes."""
    if not log:
        return [seal_after(end_of(log), 2, "second", stamp())]
    return [content_after(end_of(log), [transaction(b"x" * size)], stamp())]


STEPS = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3)), max_size=40)


@given(steps=STEPS, after=st.integers(0, 130), most=st.integers(1, 70), most_bytes=st.integers(1, 50))
def test_a_read_gives_the_ticks_of_the_log_or_none(
    steps: list[tuple[int, int]], after: int, most: int, most_bytes: int
):
    log: list[TickContent] = []
    recent = RecentTicks()
    longest = 0
    for removed, added in steps:
        log = log[: max(len(log) - removed, 0)]
        kept = len(log)
        for _ in range(added):
            log += grown(log, 10)
        recent.keep(kept, log[kept:])
        assert recent.newest == log[-1]
        longest = max(longest, len(log))
    found = recent.read(after, most, most_bytes)
    assert found == log[after : after + len(found)]
    # The seal, which is the first tick, has no entries.
    assert len(found) <= min(max(most_bytes // 10, 1) + (after == 0), most)
    if longest <= MOST_TICKS and after < len(log):
        assert found


def test_memory_is_limited():
    log: list[TickContent] = []
    recent = RecentTicks()
    for size in [10] * 100 + [9_000_000] * 3:
        log += grown(log, size)
        recent.keep(len(log) - 1, log[-1:])
        if len(log) == 100:
            assert len(recent.read(36, 100, 10**6)) == MOST_TICKS
            assert recent.read(35, 100, 10**6) == []
    assert recent.read(len(log) - 1, 5, 1) == log[-1:]
    assert recent.read(len(log) - 2, 5, 10**9) == []


def test_a_gap_forgets_the_ticks_before():
    log: list[TickContent] = []
    for _ in range(5):
        log += grown(log, 10)
    recent = RecentTicks()
    recent.keep(0, log[:2])
    recent.keep(3, log[3:])
    assert recent.read(1, 9, 99) == []
    assert recent.read(3, 9, 99) == log[3:]
    recent.forget()
    assert (recent.newest, recent.read(3, 9, 99)) == (None, [])
