"""The live feed: the newest ticks, held once for all sessions (docs/design.md, "The live feed").

A session that keeps up reads from the feed and never from the database. A slower session leaves the feed and reads the
database until it has caught up. Such a session delays no other session, and no queue grows for it. A session that has
read everything rests: only a tick with rows for it wakes it.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from lr_server.feed.held_sets import HeldSets
from lr_server.feed.reader import Reader
from lr_server.feed.routed_tick import RoutedTick, without_rows
from lr_server.feed.throttle import FlowControl, Outbox, leaving
from queues.clock import Clock
from queues.positions import Tick
from queues.send_log.port import SessionKey, TickRows

#: A full feed looks again after so many seconds.
_LOOK = 0.2
#: Up to these numbers of rows and readers, a tick is encoded while the disk writes it.
_FEW_ROWS = 64
_FEW_READERS = 8


@dataclass(frozen=True, slots=True)
class Ready:
    """The ticks that follow the position, oldest first."""

    ticks: tuple[RoutedTick, ...]


@dataclass(frozen=True, slots=True)
class Behind:
    """The position is older than every tick in the feed: read from the database."""


class LiveFeed:
    """The newest ticks with their rows, up to a number of bytes. Safe for any number of threads."""

    def __init__(self, limit_bytes: int, policy: FlowControl, clock: Clock) -> None:
        self._limit = limit_bytes
        self._policy: FlowControl = policy
        self._clock = clock
        self._ticks: deque[RoutedTick] = deque()
        self._readers: dict[SessionKey, Reader] = {}
        self._size = 0
        self._sets = HeldSets()
        self._newest: Tick | None = None
        self._open = True
        # The tick that was prepared last, and is not published yet.
        self._prepared: RoutedTick | None = None
        self._lock = threading.RLock()
        # For the thread that publishes.
        self._changed = threading.Condition(self._lock)

    @property
    def newest(self) -> Tick | None:
        """The newest tick of the source, whether its rows are in memory or not."""
        return self._newest

    def begin(self, newest: Tick | None) -> None:
        """Begin after *newest*; drop all ticks, unless the feed ends with *newest* already."""
        with self._changed:
            self._open = True
            if newest is not None and newest == self._newest:
                return
            while self._ticks:
                self._drop_oldest()
            self._newest = newest
            for reader in self._readers.values():
                reader.passed = None
            self._wake_all()

    def prepare(self, taken: TickRows) -> None:
        """Encode the rows of a small tick for the present readers; the same thread may `publish` the tick later."""
        live = self._prepared = RoutedTick(taken, self._grow)
        with self._changed:
            readers = list(self._readers)
        if taken.rows is not None and len(taken.rows) <= _FEW_ROWS and len(readers) <= _FEW_READERS:
            for owed in readers:
                live.routed(owed)

    def publish(self, taken: TickRows) -> None:
        """Add the rows of a new tick; drop the oldest ticks beyond the limit.

        Waits for the sessions that still need the oldest tick, unless the flow control lets them leave.
        """
        prepared, self._prepared = self._prepared, None
        live = prepared if prepared is not None and prepared.has(taken) else RoutedTick(taken, self._grow)
        has_rows = live.readers()
        with self._changed:
            live.is_published = True
            self._ticks.append(live)
            self._size += live.size + self._sets.add(live.sets)
            self._newest = taken.tick
            self._tell(live, has_rows)
            while self._open and self._size > self._limit and len(self._ticks) > 1:
                if self._must_wait():
                    self._changed.wait(_LOOK)
                else:
                    self._drop_oldest()

    def after(
        self,
        owed: SessionKey,
        seq: int,
        wanted: Callable[[], bool] = lambda: True,
        *,
        ring: Callable[[], None] | None = None,
        rests: bool = False,
    ) -> Ready | Behind:
        """Return the ticks after *seq*; if there is none, call *ring* once when to ask again, and after a `leave`.

        A session that *rests* waits for a tick with rows for it. Of the ticks before, only the last one is returned.
        Afterwards the feed waits for this session until `leave`. Call `leave` after each change of the result of
        *wanted*. A session that is not wanted gets no ticks, and the feed does not wait for it. *ring* must not wait.
        """
        with self._changed:
            if not wanted():
                # A stream that has left must not join again: the feed would wait, and no thread reads for that stream.
                # The session's next stream may wait already.
                return Ready(())
            found = self._after(owed, seq)
            if (reader := self._readers.get(owed)) is not None:
                # The lock is held, so that no `leave` can come between `wanted` and the wait.
                if ring is not None and isinstance(found, Ready) and not found.ticks and wanted():
                    reader.wait(seq, ring, rests=rests)
                else:
                    reader.end_wait()
            return found

    def leave(self, owed: SessionKey) -> None:
        """Wait for this session no longer; if the session waits for a tick, wake it up."""
        with self._changed:
            self._forget(owed)
            self._changed.notify_all()

    def close(self) -> None:
        """Wait for no session, until `begin`."""
        with self._changed:
            self._open = False
            self._wake_all()

    def _tell(self, live: RoutedTick, has_rows: Callable[[SessionKey], bool]) -> None:
        """Wake the waiting readers of a new tick; the tick passes over all others."""
        tick, now = live.tick, self._clock.monotonic()
        for owed, reader in self._readers.items():
            if reader.rests and reader.seq == tick.start_seq and not has_rows(owed):
                reader.pass_over(tick, live.size, now)
            elif reader.is_waiting:
                reader.wake()

    def _wake_all(self) -> None:
        for reader in self._readers.values():
            reader.wake()
        self._changed.notify_all()

    def _forget(self, owed: SessionKey) -> None:
        if (reader := self._readers.pop(owed, None)) is not None:
            reader.wake()

    def _drop_oldest(self) -> None:
        oldest = self._ticks.popleft()
        self._size -= oldest.size + self._sets.remove(oldest.sets)
        oldest.is_published = False

    def _grow(self, live: RoutedTick, added: int) -> None:
        with self._changed:
            live.size += added
            if live.is_published:
                self._size += added

    def _after(self, owed: SessionKey, seq: int) -> Ready | Behind:
        reader = self._readers.get(owed)
        passed = None if reader is None else reader.passed_since(seq)
        before = () if passed is None else (without_rows(passed),)
        upto = seq if passed is None else passed.end_seq
        newest = self._newest
        if newest is not None and upto < newest.end_seq:
            if not self._ticks or self._ticks[0].tick.start_seq > upto:
                self._forget(owed)
                return Behind()
            self._note(owed, upto)
            return Ready(before + _tail(self._ticks, upto))
        self._note(owed, upto)
        return Ready(before)

    def _note(self, owed: SessionKey, seq: int) -> None:
        now = self._clock.monotonic()
        reader = self._readers.get(owed)
        if reader is None:
            reader = self._readers[owed] = Reader(seq, window_began=now)
        drained = 0
        if seq > reader.seq:
            drained = sum(live.size for live in _tail(self._ticks, reader.seq) if live.tick.end_seq <= seq)
            if self._size > self._limit:
                self._changed.notify_all()
        reader.read(seq, drained, now)

    def _must_wait(self) -> bool:
        oldest = self._ticks[0].tick
        needing = {owed for owed, reader in self._readers.items() if reader.seq < oldest.end_seq}
        if not needing:
            return False
        now = self._clock.monotonic()
        outboxes = {owed: self._outbox(reader, now) for owed, reader in self._readers.items()}
        left: frozenset[SessionKey] = leaving(self._policy, outboxes)
        return bool(needing - left)

    def _outbox(self, reader: Reader, now: float) -> Outbox:
        unread = sum(live.size for live in self._ticks if live.tick.end_seq > reader.seq)
        return Outbox(fill=unread / self._limit, drained_per_second=reader.speed(now))


def _tail(ticks: deque[RoutedTick], seq: int) -> tuple[RoutedTick, ...]:
    tail: list[RoutedTick] = []
    for live in reversed(ticks):
        if live.tick.end_seq <= seq:
            break
        tail.append(live)
    return tuple(reversed(tail))
