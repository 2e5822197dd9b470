"""The events of one session in their order, and the time of its next try."""

import queue

from lr_server.protocol.events import Event, RetryDue
from lr_server.session.stream import FrameStream
from queues.clock import Clock


class EventQueue:
    """Takes events from several threads, and gives them to the session's thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._events: queue.SimpleQueue[tuple[Event, FrameStream | None]] = queue.SimpleQueue()
        self._retry_at: float | None = None

    def post(self, event: Event | None, stream: FrameStream | None = None) -> None:
        """Append *event*, if there is one; an event of a *stream* counts only while that stream is open."""
        if event is not None:
            self._events.put((event, stream))

    def retry_after(self, seconds: float) -> None:
        """Let `next` return `RetryDue` after *seconds* without another event; for the session's thread."""
        self._retry_at = self._clock.monotonic() + seconds

    def next(self) -> tuple[Event, FrameStream | None]:
        """Wait for the next event, or for the time of the next try; for the session's thread."""
        pause = None
        if self._retry_at is not None:
            pause = max(self._retry_at - self._clock.monotonic(), 0.0)
        try:
            return self._events.get(timeout=pause)
        except queue.Empty:
            self._retry_at = None
            return RetryDue(), None
