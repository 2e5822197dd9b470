"""Sinks that hold back until every session has a stream, then take everything and keep nothing.

The start of servers and sessions is therefore over before the clock begins.
"""

import threading
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from typing import Final

from benchmarks.contenders.null_sinks import NullSink
from benchmarks.contenders.workers import Told
from queues.clock import SYSTEM_CLOCK
from queues.wire.replication_pb2 import Ack, Frame

#: The longest wait for all streams, and for all entries, in seconds.
_LONGEST: Final = 600.0


class HeldSink(NullSink):
    """Takes only the first frame of each stream, which is empty, until `release`."""

    def __init__(self, sessions: int, entries: int) -> None:
        """Expect *sessions* sessions, each with *entries* entries."""
        super().__init__()
        self._sessions = sessions
        self._entries = entries
        self._begun: set[tuple[str, str]] = set()
        self._done: set[tuple[str, str]] = set()
        self._is_released = False
        self._changed = threading.Condition()

    def replicate(self, frames: Iterator[Frame]) -> Iterator[Ack]:
        """Acknowledge each frame; after the first one, wait for the release."""
        return super().replicate(self._held(frames))

    def _held(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        for frame in frames:
            yield frame
            key, end = (frame.session.sink, frame.session.client), _newest(frame)
            with self._changed:
                self._begun.add(key)
                if end >= self._entries:
                    self._done.add(key)
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._is_released, _LONGEST)

    def wait_begun(self) -> None:
        """Wait until every session has a stream that waits for the release."""
        self._wait(self._begun)

    def wait_done(self) -> None:
        """Wait until every session has been given its last entry."""
        self._wait(self._done)

    def _wait(self, sessions: set[tuple[str, str]]) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: len(sessions) == self._sessions, _LONGEST):
                raise TimeoutError(f"{len(sessions)} of {self._sessions} sessions came within {_LONGEST:g} s")

    def release(self) -> None:
        """Let all streams go on."""
        with self._changed:
            self._is_released = True
            self._changed.notify_all()


def _newest(frame: Frame) -> int:
    return max((group.header.end_seq for group in frame.batch.groups if group.complete), default=0)


def serve_held_at(told: Told, endpoint: str, sessions: int, entries: int, released: Event) -> None:
    """Serve *sessions* at *endpoint*; tell that all of them wait, then the seconds from the release to their end."""
    from sink.transport.service import serve

    sink = HeldSink(sessions, entries)
    service = serve(sink, [endpoint])
    sink.wait_begun()
    told.ready()
    released.wait(_LONGEST)
    began = SYSTEM_CLOCK.monotonic()
    sink.release()
    sink.wait_done()
    told.tell(SYSTEM_CLOCK.monotonic() - began)
    told.over(None)
    service.stop()
