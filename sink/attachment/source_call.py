"""The half of an attached sink's call that the source has: questions and frames go out, answers come in."""

import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue

import grpc

from queues.errors import PeerUnreachableError, ProtocolError
from queues.thread_lack import reason_of
from queues.wire import attachment_pb2 as wire
from queues.wire import replication_pb2 as pb
from sink.transport.outgoing_frames import OutgoingFrames


class SourceCall:
    """One call of an attached sink.

    The session's thread negotiates, and reads the answers to its frames. A thread of gRPC sends the `messages`.
    """

    def __init__(self, received: Iterator[wire.FromSink], cancel: Callable[[], object]) -> None:
        """Read the answers from *received*; *cancel* ends the call."""
        #: The sink, as errors name it.
        self.site = "the attached sink"
        self._received = received
        self._cancel = cancel
        self._max_bytes = 0
        self._is_lost = False
        self._to_send: SimpleQueue[pb.NegotiateRequest | _FramesToSend | None] = SimpleQueue()

    def begin(self, timeout: float) -> int:
        """Return the number that the sink's first message tells; see `negotiate` for *timeout* and the errors."""
        begin = self._answer(timeout).begin
        self._max_bytes = begin.max_bytes
        return begin.number

    def negotiate(self, request: pb.NegotiateRequest, timeout: float) -> pb.NegotiateResponse:
        """See `Sink.negotiate`; the call ends if no answer comes within *timeout* seconds."""
        self._to_send.put(request)
        answer = self._answer(timeout)
        if not answer.HasField("negotiated"):
            raise ProtocolError(f"{self.site} does not answer as an attached sink does: no answer to a negotiation")
        return answer.negotiated

    def replicate(self, frames: Iterator[pb.Frame], count_bytes: Callable[[int], None]) -> Iterator[pb.Ack]:
        """See `Sink.replicate`; *count_bytes* gets the size of each frame. The call ends with the iterator."""
        sending = _FramesToSend(frames, self._max_bytes, count_bytes)
        del frames  # see `OutgoingFrames.release`
        self._to_send.put(sending)
        acknowledged = 0
        try:
            while (answer := self._next()) is not None:
                acknowledged += 1
                yield answer.ack
                if answer.ack.HasField("refusal"):
                    return
        finally:
            self.end()
            sending.frames.release()
        sending.frames.check()
        if sending.too_large:
            yield pb.Ack(refusal=pb.Refusal(kind=pb.Refusal.TOO_LARGE, reason=sending.too_large))
        elif not sending.frames.finished or acknowledged < sending.frames.sent:
            raise self._ended()

    def messages(self) -> Iterator[wire.ToSink]:
        """Yield the messages to the sink until the end of the call; for the thread that sends."""
        while (item := self._to_send.get()) is not None:
            if isinstance(item, pb.NegotiateRequest):
                yield wire.ToSink(negotiate=item)
            else:
                for message in item:
                    yield wire.ToSink(frame=message)
                yield wire.ToSink(last=True)

    def end(self) -> None:
        """End the call. May be called twice, and by any thread."""
        self._to_send.put(None)
        self._cancel()

    def lose(self) -> None:
        """End the call, whose connection the sink has lost."""
        self._is_lost = True
        self.end()

    def _ended(self) -> PeerUnreachableError:
        if self._is_lost:
            return PeerUnreachableError(f"{self.site} has lost its connection, and has attached itself again")
        return PeerUnreachableError(f"{self.site} ended the stream, most likely because it stops")

    def _answer(self, timeout: float) -> wire.FromSink:
        is_late = threading.Event()

        def late() -> None:
            is_late.set()
            self._cancel()

        timer = threading.Timer(timeout, late)
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError as error:
            if lack := reason_of(error):
                raise PeerUnreachableError(lack) from error
            raise
        try:
            answer = self._next()
        finally:
            timer.cancel()
        if is_late.is_set():
            raise PeerUnreachableError(f"{self.site} has not answered within {timeout:g} s")
        if answer is None:
            raise self._ended()
        return answer

    def _next(self) -> wire.FromSink | None:
        """Return the next answer; None once the call has ended, by an error too."""
        try:
            return next(self._received, None)
        except grpc.RpcError:
            # gRPC tells no reason for the end of a call that it serves.
            return None


class _FramesToSend:
    """Yields *frames* as bytes up to one with more than *max_bytes*, about which `too_large` has a sentence."""

    def __init__(self, frames: Iterator[pb.Frame], max_bytes: int, count_bytes: Callable[[int], None]) -> None:
        self.frames = OutgoingFrames(frames)
        self.too_large = ""
        self._max_bytes = max_bytes
        self._count_bytes = count_bytes

    def __iter__(self) -> Iterator[bytes]:
        for frame in self.frames:
            message = frame.SerializeToString()
            if len(message) > self._max_bytes:
                self.too_large = f"a frame of {len(message)} bytes is larger than {self._max_bytes}"
                return
            self._count_bytes(len(message))
            yield message
