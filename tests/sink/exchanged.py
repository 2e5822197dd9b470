"""A sink whose streams have no threads, in the form of one that iterators feed. Both keep the same contract."""

import queue
from collections.abc import Generator, Iterator

from queues.wire import replication_pb2 as pb
from sink.port import RestingSink
from sink.rests import Bell, Rest


class Exchanged:
    """See `Sink`."""

    def __init__(self, sink: RestingSink) -> None:
        self._sink = sink

    def negotiate(self, request: pb.NegotiateRequest) -> pb.NegotiateResponse:
        return self._sink.negotiate(request)

    def replicate(self, frames: Iterator[pb.Frame]) -> Iterator[pb.Ack]:
        answers: queue.SimpleQueue[pb.Ack | BaseException | None] = queue.SimpleQueue()
        is_open = True

        def steps() -> Generator[pb.Frame | Rest, None, None]:
            for frame in frames:
                # A frame after each rest, as in a stream that waits for entries.
                yield Rest(0.0)
                yield frame

        def note(ack: pb.Ack) -> bool:
            answers.put(ack)
            return is_open

        self._sink.exchange(steps(), Bell(), note, answers.put)
        try:
            while (answer := answers.get()) is not None:
                if isinstance(answer, BaseException):
                    raise answer
                yield answer
        finally:
            is_open = False

    def close(self) -> None:
        self._sink.close()
