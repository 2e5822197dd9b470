"""The requests that wait to be stored: bounded, and shared fairly among producers."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from queues.clock import Clock
from queues.send_log.producers import ProducerKey, Production
from queues.wire import ingest_pb2 as pb

#: The longest wait for further requests, in seconds.
LINGER: Final = 0.002


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """A request that waits. `settle` takes its reply; None if only a repeated request can tell the outcome."""

    production: Production
    size: int
    settle: Callable[[pb.ProduceReply | None], None]


class Room(NamedTuple):
    """A number of requests and their bytes; one producer has at most a quarter of the room for all."""

    requests: int
    size: int


def full(taken: Room, own: Room, size: int, limits: Room) -> str:
    """Return why a request of *size* bytes cannot wait; empty if it can. Pure.

    *taken* is the size of all waiting requests, and *own* that of its producer's. A single request may wait, however
    large.
    """
    if own.requests and (own.requests >= limits.requests // 4 or own.size + size > limits.size // 4):
        return f"{own.requests} requests of this producer wait, as many as one may have here: wait for answers"
    if taken.requests and (taken.requests >= limits.requests or taken.size + size > limits.size):
        return f"{taken.requests} requests wait at this server, as many as it takes: send this one again later"
    return ""


def is_enough(waiting: int, expected: int, size: int, most: Room) -> bool:
    """Return whether a group is complete without more requests; *expected* is the size of a usual group. Pure."""
    return waiting >= min(expected, most.requests) or size >= most.size


class _Queue:
    """The waiting requests of one producer, and their bytes."""

    __slots__ = ("requests", "size")

    def __init__(self) -> None:
        self.requests: deque[Pending] = deque()
        self.size = 0


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

    def put(self, request: Pending) -> str:
        """Add a request; return why it cannot wait, empty if it does."""
        key = request.production.key
        with self._changed:
            if self._closed:
                return self._closed
            queue = self._queues.get(key) or _Queue()
            own = Room(len(queue.requests), queue.size)
            if reason := full(Room(self._requests, self._size), own, request.size, self._limits):
                return reason
            queue.requests.append(request)
            queue.size += request.size
            self._queues[key] = queue
            self._requests += 1
            self._size += request.size
            # A thread that waits for a group sleeps on until its group is complete.
            if self._requests == 1 or self._is_complete():
                self._changed.notify()
            return ""

    def take(self) -> list[Pending]:
        """Wait for requests and return a group of them, in turns of the producers; nothing after `close`."""
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
        while self._queues and len(group) < self._group.requests:
            key, queue = next(iter(self._queues.items()))
            if group and size + queue.requests[0].size > self._group.size:
                break
            request = queue.requests.popleft()
            queue.size -= request.size
            del self._queues[key]
            if queue.requests:
                # The producer goes behind the others.
                self._queues[key] = queue
            size += request.size
            group.append(request)
        self._requests -= len(group)
        self._size -= size
        return group
