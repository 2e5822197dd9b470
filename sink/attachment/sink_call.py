"""The half of a call that an attached sink has: it answers the questions and the frames of one session."""

import threading
from collections.abc import Iterator
from queue import SimpleQueue

import grpc

from queues.logs import logger
from queues.wire import attachment_pb2 as wire
from queues.wire import replication_pb2 as pb
from queues.wire.attachment_pb2_grpc import AttachmentStub
from sink.port import Sink
from sink.transport.channels import SharedChannel
from sink.transport.ended_calls import let_go
from sink.transport.peer_identity import Verify
from sink.transport.received_bytes import ReceivedBytes
from sink.transport.received_frames import FrameRefusedError, ReceivedFrames

log = logger("lrq.sink")


class SinkCall:
    """One call to the source; `run` returns at its end."""

    def __init__(
        self, sink: Sink, verify: Verify, stopping: threading.Event, received: ReceivedBytes, begin: wire.CallBegin
    ) -> None:
        """Give the frames that pass *verify* to *sink*, and count them in *received*, until *stopping* is set."""
        self._sink = sink
        self._verify = verify
        self._stopping = stopping
        self._received = received
        self._begin = begin
        self._answers: SimpleQueue[wire.FromSink | None] = SimpleQueue()
        self._call: grpc.Call | None = None
        self._is_ended = False
        #: The client and the source of the session; empty before its first frame.
        self.session = ("", "")

    def run(self, line: SharedChannel) -> None:
        """Open the call, and answer until its end."""
        self._answers.put(wire.FromSink(begin=self._begin))
        with line.beginning():
            call = self._call = AttachmentStub(line.channel).Carry(iter(self._answers.get, None))
        if self._is_ended:
            call.cancel()
        try:
            self._answer(call)
            # The answers go out before the end of the call.
            self._answers.put(None)
            for _ in call:
                pass
        except grpc.RpcError as error:
            # The source shows the reason, and begins again.
            let_go(error)
        finally:
            self._answers.put(None)
            call.cancel()

    def end(self) -> None:
        """End the call; for any thread."""
        self._is_ended = True
        if self._call is not None:
            self._call.cancel()

    def _answer(self, messages: Iterator[wire.ToSink]) -> None:
        for message in messages:
            if message.HasField("frame"):
                self._store(message.frame, messages)
                return
            if not message.HasField("negotiate"):
                return
            self._answers.put(wire.FromSink(negotiated=self._negotiated(message.negotiate)))

    def _negotiated(self, asked: pb.NegotiateRequest) -> pb.NegotiateResponse:
        if (refusal := self._verify(asked.session)) is None:
            return self._sink.negotiate(asked)
        log.warning("a session of another site was refused", reason=refusal.reason)
        return pb.NegotiateResponse(refusal=refusal)

    def _store(self, first: bytes, messages: Iterator[wire.ToSink]) -> None:
        frames = ReceivedFrames(_frames(first, messages), self._verify)
        try:
            for ack in self._sink.replicate(frames):
                if not ack.HasField("refusal"):
                    self.session = frames.newest[:2]
                    self._received.add(*frames.newest)
                self._answers.put(wire.FromSink(ack=ack))
                if self._stopping.is_set():
                    return
        except FrameRefusedError as error:
            self._answers.put(wire.FromSink(ack=pb.Ack(refusal=error.refusal)))


def _frames(first: bytes, messages: Iterator[wire.ToSink]) -> Iterator[bytes]:
    yield first
    for message in messages:
        if not message.HasField("frame"):
            return
        yield message.frame
