"""Attaches this server to the sources that cannot reach it."""

from collections.abc import Iterable
from typing import Final

from queues.clock import SYSTEM_CLOCK, Clock
from queues.names import SiteId
from sink.attachment.attached_line import AttachedLine, AttachTo, SinkParts
from sink.port import Sink
from sink.transport.channels import MAX_RECEIVED
from sink.transport.credentials import Credentials
from sink.transport.service import FRAME_OVERHEAD, MAX_STREAMS
from sink.writer import MAX_FRAME_BYTES

#: The seconds that a stop leaves to the answers of the last frames.
GRACE: Final = 0.2


class Attacher:
    """Keeps this server of *site* attached to all *servers*, from `start` to `stop`."""

    def __init__(
        self,
        sink: Sink,
        site: SiteId,
        servers: Iterable[AttachTo],
        *,
        credentials: Credentials | None = None,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        max_streams: int = MAX_STREAMS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Give the frames of the sources, with at most *max_frame_bytes*, to *sink*.

        One server of a source has at most *max_streams* sessions at one moment.
        """
        self._clock = clock
        largest = min(max_frame_bytes + FRAME_OVERHEAD, MAX_RECEIVED)
        self._parts = SinkParts(sink, site, credentials, largest, max_streams, clock)
        self._lines = [AttachedLine(to, self._parts) for to in servers]
        #: The bytes that have come from each source.
        self.received = self._parts.received

    @property
    def trouble(self) -> str:
        """Why this server is not attached to one of *servers*; empty while it is attached to all."""
        return next((line.trouble for line in self._lines if line.trouble), "")

    def start(self) -> None:
        """Begin to attach this server; see `AttachedLine.start`. Does not wait."""
        for line in self._lines:
            line.start()

    def end_streams(self, client: str, source: str) -> None:
        """End the streams of one session; its source negotiates again."""
        for line in self._lines:
            line.end_calls((client, source))

    def stop(self, grace: float = GRACE) -> None:
        """End all streams; a frame in progress is finished, and within *grace* seconds also acknowledged.

        No write happens after the return. May be called twice.
        """
        self._parts.stopping.set()
        for line in self._lines:
            line.detach()
        until = self._clock.monotonic() + grace
        for line in self._lines:
            line.join_calls(until)
        for line in self._lines:
            line.stop()
