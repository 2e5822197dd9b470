"""Decorators of the sink's port that delay frames or lose connections."""

import random
import threading
from collections.abc import Iterator

from queues.errors import PeerUnreachableError
from queues.wire.replication_pb2 import Ack, Frame, NegotiateRequest, NegotiateResponse
from sink.port import Sink


class PassingSink:
    """Passes every call on to another sink."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def negotiate(self, request: NegotiateRequest) -> NegotiateResponse:
        return self._sink.negotiate(request)

    def replicate(self, frames: Iterator[Frame]) -> Iterator[Ack]:
        return self._sink.replicate(frames)

    def close(self) -> None:
        """Leave the sink open: other sessions use it too."""


class HeldSink(PassingSink):
    """Accepts *chunks* snapshot chunks, sets `held` at the next one, and waits there for `go_on`."""

    def __init__(self, sink: Sink, chunks: int) -> None:
        super().__init__(sink)
        self._left = chunks
        self.held = threading.Event()
        self.go_on = threading.Event()

    def replicate(self, frames: Iterator[Frame]) -> Iterator[Ack]:
        return self._sink.replicate(self._hold(frames))

    def _hold(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        for frame in frames:
            if frame.HasField("snapshot_chunk"):
                if not self._left:
                    self.held.set()
                    assert self.go_on.wait(20)
                self._left -= 1
            yield frame


class StillSink(PassingSink):
    """Stands still while asked to: no frame is answered, and no negotiation, until the caller hangs up."""

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._answers = threading.Event()
        self._answers.set()
        self._wake = threading.Condition()
        self._calls = 0
        #: The number of frames that wait for an answer, and of connections that were given up meanwhile.
        self.held = 0
        self.given_up = 0

    def stand_still(self) -> None:
        self._answers.clear()

    def go_on(self) -> None:
        with self._wake:
            self._answers.set()
            self._wake.notify_all()

    @property
    def stands_still(self) -> bool:
        return not self._answers.is_set()

    def negotiate(self, request: NegotiateRequest) -> NegotiateResponse:
        if self.stands_still:
            raise PeerUnreachableError("the sink stands still")
        return super().negotiate(request)

    def replicate(self, frames: Iterator[Frame]) -> Iterator[Ack]:
        with self._wake:
            self._calls += 1
            call = self._calls
        return self._sink.replicate(self._hold(frames, call))

    def close(self) -> None:
        """End the connection in which a frame waits."""
        with self._wake:
            self._calls += 1
            self._wake.notify_all()

    def _hold(self, frames: Iterator[Frame], call: int) -> Iterator[Frame]:
        for frame in frames:
            with self._wake:
                self.held += 1
                self._wake.wait_for(lambda: self._answers.is_set() or call != self._calls)
                self.held -= 1
                if call != self._calls:
                    self.given_up += 1
                    raise PeerUnreachableError("the caller has hung up")
            yield frame


class UnreliableSink(PassingSink):
    """Loses the connection at random: before a frame arrives, or between its commit and its acknowledgement."""

    def __init__(self, sink: Sink, chance: random.Random, share: float = 0.1) -> None:
        super().__init__(sink)
        self._chance = chance
        self._share = share
        self.lost = 0
        self.snapshot_rows = 0

    def replicate(self, frames: Iterator[Frame]) -> Iterator[Ack]:
        for ack in self._sink.replicate(self._count(frames)):
            if self._strikes():
                raise PeerUnreachableError("the connection was lost before the acknowledgement arrived")
            yield ack

    def _count(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        for frame in frames:
            if self._strikes():
                raise PeerUnreachableError("the connection was lost before the frame arrived")
            self.snapshot_rows += sum(block.rows for block in frame.snapshot_chunk.blocks)
            yield frame

    def _strikes(self) -> bool:
        strikes = self._chance.random() < self._share
        self.lost += strikes
        return strikes
