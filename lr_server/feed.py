"""The live feed: the newest ticks, held once for all sessions (seed 000's `/maintenance`).

A session that keeps up reads from here and never from the database. One that does not falls out at the old end and
reads alone until it has caught up: it holds up nobody, and no queue grows on its behalf.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from lr_server.router import after_cut, entry_rows, owed_rows, owed_sets
from lr_server.throttle import FlowControl, Outbox, leaving
from queues.blocks import encode_entries
from queues.clock import Clock
from queues.log.port import Group, Owed
from queues.positions import Mark, Tick
from queues.wire.replication_pb2 import Block

#: What a group counts for beyond its payload, in bytes.
_OVERHEAD = 512
#: Over how long a reader's speed is measured, and how long a full feed waits between two looks, in seconds.
_WINDOW = 1.0
_LOOK = 0.2


class LiveGroup:
    """A tick's rows, routed and encoded at most once for each different selection of them.

    `size` is what all of that takes up, nearly, in bytes; *grow* is told of what is added to it.
    """

    def __init__(self, group: Group, grow: Callable[["LiveGroup", int], None]) -> None:
        self.tick: Tick = group.tick
        self._group = group
        self._grow = grow
        self._blocks: dict[tuple[str, frozenset[int]], Block | None] = {}
        self._guard = threading.Lock()
        payload = sum(len(row.payload) for row in group.rows or ())
        self.size = payload + _OVERHEAD + 200 * len(group.rows or ())
        self.is_dropped = False

    @property
    def is_held(self) -> bool:
        """Whether the rows are here; a tick above the limits is read from the database, in pieces."""
        return self._group.rows is not None

    def block(self, owed: Owed) -> Block | None:
        """Return the rows that are *owed*, encoded; None when there are none."""
        numbers = owed_sets(self._group.sets, owed.destination)
        if not numbers:
            return None
        key = (owed.client, numbers)
        with self._guard:
            if key not in self._blocks:
                rows = entry_rows(owed_rows(self._group.rows or (), owed, numbers))
                block = self._blocks[key] = encode_entries(rows) if rows else None
                self._grow(self, len(block.body) if block is not None else 0)
            return self._blocks[key]

    def block_after(self, owed: Owed, cut: Mark) -> Block | None:
        """Like `block`, without what a snapshot that was cut there holds."""
        numbers = owed_sets(self._group.sets, owed.destination)
        rows = entry_rows(after_cut(owed_rows(self._group.rows or (), owed, numbers), cut))
        return encode_entries(rows) if rows else None


@dataclass(frozen=True, slots=True)
class Ready:
    """The groups that follow the position, oldest first."""

    groups: tuple[LiveGroup, ...]


@dataclass(frozen=True, slots=True)
class Behind:
    """The position is older than anything held: read from the database."""


@dataclass(slots=True)
class _Reader:
    """A session on the feed: how far it has read, and how fast."""

    seq: int
    drained: int = 0
    window_began: float = 0.0
    per_second: float = 0.0


class LiveFeed:
    """The newest groups, up to a number of bytes. For any number of threads."""

    def __init__(self, limit_bytes: int, policy: FlowControl, clock: Clock) -> None:
        self._limit = limit_bytes
        self._policy: FlowControl = policy
        self._clock = clock
        self._groups: deque[LiveGroup] = deque()
        self._readers: dict[Owed, _Reader] = {}
        self._size = 0
        self._newest: Tick | None = None
        self._open = True
        self._changed = threading.Condition()

    @property
    def newest(self) -> Tick | None:
        """The newest tick of the source, whether its group is held or not."""
        return self._newest

    def begin(self, newest: Tick | None) -> None:
        """Forget everything and begin after *newest*."""
        with self._changed:
            while self._groups:
                self._drop_oldest()
            self._newest = newest
            self._changed.notify_all()

    def publish(self, group: Group) -> None:
        """Add the group of the tick that was just taken; drop the oldest beyond the limit.

        Waits for those who still need the oldest, unless the flow control lets them leave.
        """
        live = LiveGroup(group, self._grow)
        with self._changed:
            self._groups.append(live)
            self._size += live.size
            self._newest = group.tick
            self._changed.notify_all()
            while self._open and self._size > self._limit and len(self._groups) > 1:
                if self._must_wait():
                    self._changed.wait(_LOOK)
                else:
                    self._drop_oldest()

    def after(self, owed: Owed, seq: int, timeout: float, wanted: Callable[[], bool] = lambda: True) -> Ready | Behind:
        """Return what follows *seq*; wait up to *timeout* seconds for something that does, while it is *wanted*.

        From then on the feed waits for this session, until it leaves. Who changes what *wanted* tells calls `leave`
        afterwards; whoever is not wanted any more gets nothing, and is not waited for.
        """
        with self._changed:
            found = self._after(owed, seq, wanted)
            # Asked with the lock held, so that no `leave` can come between the answer and the wait.
            if isinstance(found, Ready) and not found.groups and wanted():
                self._changed.wait(timeout)
                found = self._after(owed, seq, wanted)
            return found

    def leave(self, owed: Owed) -> None:
        """Wait for this session no longer; if it waits itself, let it look at its own affairs."""
        with self._changed:
            self._readers.pop(owed, None)
            self._changed.notify_all()

    def close(self) -> None:
        """Wait for nobody any more."""
        with self._changed:
            self._open = False
            self._changed.notify_all()

    def _drop_oldest(self) -> None:
        oldest = self._groups.popleft()
        self._size -= oldest.size
        oldest.is_dropped = True

    def _grow(self, group: LiveGroup, added: int) -> None:
        with self._changed:
            if not group.is_dropped:
                group.size += added
                self._size += added

    def _after(self, owed: Owed, seq: int, wanted: Callable[[], bool]) -> Ready | Behind:
        # A reader that comes back after it has left would be waited for, and nobody would read on its behalf.
        if not wanted():
            return Ready(())
        newest = self._newest
        if newest is not None and seq < newest.end_seq:
            if not self._groups or self._groups[0].tick.start_seq > seq:
                self._readers.pop(owed, None)
                return Behind()
            self._note(owed, seq)
            return Ready(_tail(self._groups, seq))
        self._note(owed, seq)
        return Ready(())

    def _note(self, owed: Owed, seq: int) -> None:
        now = self._clock.monotonic()
        reader = self._readers.setdefault(owed, _Reader(seq, window_began=now))
        if seq > reader.seq:
            reader.drained += sum(group.size for group in _tail(self._groups, reader.seq) if group.tick.end_seq <= seq)
        if seq > reader.seq and self._size > self._limit:
            self._changed.notify_all()
        reader.seq = seq
        if now - reader.window_began >= _WINDOW:
            reader.per_second = reader.drained / (now - reader.window_began)
            reader.drained, reader.window_began = 0, now

    def _must_wait(self) -> bool:
        oldest = self._groups[0].tick
        needing = {owed for owed, reader in self._readers.items() if reader.seq < oldest.end_seq}
        if not needing:
            return False
        now = self._clock.monotonic()
        outboxes = {owed: self._outbox(reader, now) for owed, reader in self._readers.items()}
        left: frozenset[Owed] = leaving(self._policy, outboxes)
        return bool(needing - left)

    def _outbox(self, reader: _Reader, now: float) -> Outbox:
        unread = sum(group.size for group in self._groups if group.tick.end_seq > reader.seq)
        passed = now - reader.window_began
        # One that stands still measures nothing itself: its speed of earlier would be as good as anyone's.
        speed = reader.per_second if passed < 2 * _WINDOW else reader.drained / passed
        return Outbox(fill=unread / self._limit, drained_per_second=speed)


def _tail(groups: "deque[LiveGroup]", seq: int) -> tuple[LiveGroup, ...]:
    tail: list[LiveGroup] = []
    for group in reversed(groups):
        if group.tick.end_seq <= seq:
            break
        tail.append(group)
    return tuple(reversed(tail))
