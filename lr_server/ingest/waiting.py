"""The requests that wait to be stored: bounded, and shared fairly among producers."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from lr_server.ingest.pending import Pending
from queues.clock import Clock
from queues.send_log.producers import ProducerKey

#: The longest wait for further requests, in seconds.
LINGER: Final = 0.002
# The most requests of a producer that follow one another in a group.
_LONGEST_TURN: Final = 64
# The most groups until a waiting producer has its turn, unless more producers wait than so many groups hold.
_GROUPS_AWAY: Final = 4


class Room(NamedTuple):
    """A number of requests and their bytes; one producer has at most a quarter of the room for all."""

    requests: int
    size: int


def full(taken: Room, own: Room, more: Room, limits: Room) -> str:
    """Return why *more* requests of a producer cannot wait; empty if they can. Pure.

    *taken* is the size of all waiting requests, and *own* that of the producer's. The first ones may wait, however
    large.
    """
    if own.requests and (
        own.requests + more.requests > limits.requests // 4 or own.size + more.size > limits.size // 4
    ):
        return f"{own.requests} requests of this producer wait, as many as one may have here: wait for answers"
    if taken.requests and (taken.requests + more.requests > limits.requests or taken.size + more.size > limits.size):
        return f"{taken.requests} requests wait at this server, as many as it takes: send this one again later"
    return ""


def is_enough(waiting: int, expected: int, size: int, most: Room) -> bool:
    """Return whether a group is complete without more requests; *expected* is the size of a usual group. Pure."""
    return waiting >= min(expected, most.requests) or size >= most.size


def turn(producers: int, group: int) -> int:
    """Return the most requests of one turn, if *producers* wait, and a group has *group* requests. Pure.

    A long turn needs fewer messages with replies. Each producer still has its turn within `_GROUPS_AWAY` groups.
    """
    return max(1, min(_LONGEST_TURN, _GROUPS_AWAY * group // max(producers, 1)))


class _Queue:
    """The waiting requests of one producer, and their bytes."""

    __slots__ = ("requests", "size")

    def __init__(self) -> None:
        self.requests: deque[Pending] = deque()
        self.size = 0

    def take(self, room: Room, *, is_first: bool) -> list[Pending]:
        """Remove and return the first requests that fit into *room*; *is_first*: the very first one always fits."""
        taken: list[Pending] = []
        size = 0
        while self.requests and len(taken) < room.requests:
            more = self.requests[0].slot.size
            if size + more > room.size and not (is_first and not taken):
                break
            taken.append(self.requests.popleft())
            size += more
        self.size -= size
        return taken


class Waiting:
    """Requests by producer; any number of threads put requests, and one thread takes groups."""

    def __init__(self, limits: Room, group: Room, clock: Clock) -> None:
        """Let one group have the requests and bytes of *group*, at least one request."""
        self._limits = limits
        self._group = group
        self._clock = clock
        self._queues: dict[ProducerKey, _Queue] = {}
        self._requests = 0
        self._size = 0
        self._changed = threading.Condition()
        self._closed = ""
        self._expected = 1

    def __len__(self) -> int:
        """The number of waiting requests."""
        return self._requests

    @property
    def is_closed(self) -> bool:
        """Whether no further requests are taken."""
        return bool(self._closed)

    def put(self, requests: Sequence[Pending]) -> str:
        """Add requests of one producer; return why they cannot wait, empty if they do."""
        key = requests[0].production.key
        more = Room(len(requests), sum(request.slot.size for request in requests))
        with self._changed:
            if self._closed:
                return self._closed
            queue = self._queues.get(key) or _Queue()
            own = Room(len(queue.requests), queue.size)
            if reason := full(Room(self._requests, self._size), own, more, self._limits):
                return reason
            queue.requests.extend(requests)
            queue.size += more.size
            self._queues[key] = queue
            was_empty = not self._requests
            self._requests += more.requests
            self._size += more.size
            # A thread that waits for a group sleeps on until its group is complete.
            if was_empty or self._is_complete():
                self._changed.notify()
            return ""

    def take(self) -> list[Pending]:
        """Wait for requests; return a group of them in turns of the producers, as `turn`; nothing after `close`."""
        with self._changed:
            while not self._queues and not self._closed:
                self._changed.wait()
            self._linger()
            group = self._next_group()
        # A group as large as the last ones is likely again.
        self._expected = max(len(group), self._expected // 2, 1)
        return group

    def close(self, reason: str) -> list[Pending]:
        """Take no further requests, for *reason*; return those that wait."""
        with self._changed:
            self._closed = reason
            left = [request for queue in self._queues.values() for request in queue.requests]
            self._queues.clear()
            self._requests = self._size = 0
            self._changed.notify_all()
            return left

    def _linger(self) -> None:
        """Wait a moment for the requests that the last groups make likely."""
        until = self._clock.monotonic() + LINGER
        while not self._closed and not self._is_complete():
            left = until - self._clock.monotonic()
            if left <= 0:
                return
            self._changed.wait(left)

    def _is_complete(self) -> bool:
        return is_enough(self._requests, self._expected, self._size, self._group)

    def _next_group(self) -> list[Pending]:
        group: list[Pending] = []
        size = 0
        most = turn(len(self._queues), self._group.requests)
        while self._queues and len(group) < self._group.requests:
            key, queue = next(iter(self._queues.items()))
            room = Room(min(most, self._group.requests - len(group)), self._group.size - size)
            requests = queue.take(room, is_first=not group)
            if not requests:
                break
            del self._queues[key]
            if queue.requests:
                # The producer goes behind the others.
                self._queues[key] = queue
            size += sum(request.slot.size for request in requests)
            group += requests
        self._requests -= len(group)
        self._size -= size
        return group
