"""The live feed: the newest ticks, held once for all sessions (docs/design.md, "The live feed").

A session that keeps up reads from the feed and never from the database. A slower session leaves the feed and reads the
database until it has caught up. Such a session delays no other session, and no queue grows for it. A session that has
read everything rests: only a tick with rows for it wakes it.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from lr_server.feed.reader import Reader
from lr_server.feed.router import RoutedRows, after_cut, encoded, owed_rows, owed_sets
from lr_server.feed.throttle import FlowControl, Outbox, leaving
from queues.clock import Clock
from queues.names import SiteId
from queues.positions import Tick, Visibility
from queues.send_log.port import SessionKey, TickRows, size_of

#: Memory of a group beyond its rows, in bytes.
_OVERHEAD = 2048
#: A full feed looks again after so many seconds.
_LOOK = 0.2
#: Up to these numbers of rows and readers, a tick is encoded while the disk writes it.
_FEW_ROWS = 64
_FEW_READERS = 8


class RoutedTick:
    """A tick's rows; each selection of them is routed and encoded at most once.

    `size` is the approximate memory of rows and encoded blocks, in bytes. *grow* gets this object and the bytes of each
    new block. `is_published`: the feed holds and counts this tick.
    """

    def __init__(self, group: TickRows, grow: Callable[["RoutedTick", int], None]) -> None:
        self.tick: Tick = group.tick
        self._group = group
        self._grow = grow
        self._blocks: dict[tuple[str, frozenset[int]], RoutedRows] = {}
        self._guard = threading.Lock()
        self.size = size_of(group.rows or ()) + _OVERHEAD + 200 * len(group.rows or ())
        self.is_published = False

    def has(self, group: TickRows) -> bool:
        """Return whether this object was made of *group*."""
        return self._group is group

    @property
    def is_held(self) -> bool:
        """Whether the rows are in memory; a tick above the limits is read from the database in parts."""
        return self._group.rows is not None

    def readers(self) -> Callable[[SessionKey], bool]:
        """Return a function that tells whether the tick may have rows for a session."""
        rows, sets = self._group.rows, self._group.sets
        if rows is None:
            return lambda _: True
        named: dict[str, set[SiteId]] = {}
        for client, number in {(row.client, row.tag_set) for row in rows}:
            named.setdefault(client, set()).update(sets.get(number, ()))
        return lambda owed: owed.destination in named.get(owed.client, ())

    def routed(self, owed: SessionKey) -> RoutedRows:
        """Return the session's rows."""
        numbers = owed_sets(self._group.sets, owed.destination)
        if not numbers:
            return RoutedRows(None)
        key = (owed.client, numbers)
        with self._guard:
            if key not in self._blocks:
                found = self._blocks[key] = encoded(owed_rows(self._group.rows or (), owed, numbers))
                self._grow(self, len(found.block.body) if found.block is not None else 0)
            return self._blocks[key]

    def routed_after(self, owed: SessionKey, cut: Visibility) -> RoutedRows:
        """Like `routed`, without the rows that a snapshot with this *cut* contains."""
        numbers = owed_sets(self._group.sets, owed.destination)
        return encoded(after_cut(owed_rows(self._group.rows or (), owed, numbers), cut))


@dataclass(frozen=True, slots=True)
class Ready:
    """The ticks that follow the position, oldest first."""

    groups: tuple[RoutedTick, ...]


@dataclass(frozen=True, slots=True)
class Behind:
    """The position is older than every tick in the feed: read from the database."""


class LiveFeed:
    """The newest ticks with their rows, up to a number of bytes. Safe for any number of threads."""

    def __init__(self, limit_bytes: int, policy: FlowControl, clock: Clock) -> None:
        self._limit = limit_bytes
        self._policy: FlowControl = policy
        self._clock = clock
        self._groups: deque[RoutedTick] = deque()
        self._readers: dict[SessionKey, Reader] = {}
        self._size = 0
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
            while self._groups:
                self._drop_oldest()
            self._newest = newest
            for reader in self._readers.values():
                reader.passed = None
            self._wake_all()

    def prepare(self, group: TickRows) -> None:
        """Encode the rows of a small tick for the present readers; the same thread may `publish` the tick later."""
        live = self._prepared = RoutedTick(group, self._grow)
        with self._changed:
            readers = list(self._readers)
        if group.rows is not None and len(group.rows) <= _FEW_ROWS and len(readers) <= _FEW_READERS:
            for owed in readers:
                live.routed(owed)

    def publish(self, group: TickRows) -> None:
        """Add the rows of a new tick; drop the oldest ticks beyond the limit.

        Waits for the sessions that still need the oldest tick, unless the flow control lets them leave.
        """
        prepared, self._prepared = self._prepared, None
        live = prepared if prepared is not None and prepared.has(group) else RoutedTick(group, self._grow)
        has_rows = live.readers()
        with self._changed:
            live.is_published = True
            self._groups.append(live)
            self._size += live.size
            self._newest = group.tick
            self._tell(live, has_rows)
            while self._open and self._size > self._limit and len(self._groups) > 1:
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
                if ring is not None and isinstance(found, Ready) and not found.groups and wanted():
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
        oldest = self._groups.popleft()
        self._size -= oldest.size
        oldest.is_published = False

    def _grow(self, group: RoutedTick, added: int) -> None:
        with self._changed:
            group.size += added
            if group.is_published:
                self._size += added

    def _after(self, owed: SessionKey, seq: int) -> Ready | Behind:
        reader = self._readers.get(owed)
        passed = None if reader is None else reader.passed_since(seq)
        before = () if passed is None else (without_rows(passed),)
        upto = seq if passed is None else passed.end_seq
        newest = self._newest
        if newest is not None and upto < newest.end_seq:
            if not self._groups or self._groups[0].tick.start_seq > upto:
                self._forget(owed)
                return Behind()
            self._note(owed, upto)
            return Ready(before + _tail(self._groups, upto))
        self._note(owed, upto)
        return Ready(before)

    def _note(self, owed: SessionKey, seq: int) -> None:
        now = self._clock.monotonic()
        reader = self._readers.get(owed)
        if reader is None:
            reader = self._readers[owed] = Reader(seq, window_began=now)
        drained = 0
        if seq > reader.seq:
            drained = sum(group.size for group in _tail(self._groups, reader.seq) if group.tick.end_seq <= seq)
            if self._size > self._limit:
                self._changed.notify_all()
        reader.read(seq, drained, now)

    def _must_wait(self) -> bool:
        oldest = self._groups[0].tick
        needing = {owed for owed, reader in self._readers.items() if reader.seq < oldest.end_seq}
        if not needing:
            return False
        now = self._clock.monotonic()
        outboxes = {owed: self._outbox(reader, now) for owed, reader in self._readers.items()}
        left: frozenset[SessionKey] = leaving(self._policy, outboxes)
        return bool(needing - left)

    def _outbox(self, reader: Reader, now: float) -> Outbox:
        unread = sum(group.size for group in self._groups if group.tick.end_seq > reader.seq)
        return Outbox(fill=unread / self._limit, drained_per_second=reader.speed(now))


def _tail(groups: "deque[RoutedTick]", seq: int) -> tuple[RoutedTick, ...]:
    tail: list[RoutedTick] = []
    for group in reversed(groups):
        if group.tick.end_seq <= seq:
            break
        tail.append(group)
    return tuple(reversed(tail))


def without_rows(tick: Tick) -> RoutedTick:
    """Return *tick* as one that has no rows for any session."""
    return RoutedTick(TickRows(tick, (), {}), lambda _tick, _bytes: None)
