"""Sinks that acknowledge everything and keep nothing, so that a source can be measured with hundreds of them."""

import threading
from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.contenders.workers import Told
from queues.wire.replication_pb2 import Ack, Batch, Frame, NegotiateRequest, NegotiateResponse, Position
from sink.port import PROTOCOL

#: One service takes so many sessions.
_A_SERVICE: Final = 200


class NullSink:
    """Remembers where each session stands."""

    def __init__(self) -> None:
        """Know no session."""
        self._guard = threading.Lock()
        self._received: dict[tuple[str, str], Position] = {}

    def negotiate(self, request: NegotiateRequest) -> NegotiateResponse:
        """Go on where it stands."""
        session = request.session
        with self._guard:
            position = self._received.get((session.sink, session.client), Position())
        return NegotiateResponse(protocol=PROTOCOL, site=session.sink, received=position, boundary=position)

    def replicate(self, frames: Iterator[Frame]) -> Iterator[Ack]:
        """Acknowledge each frame."""
        for frame in frames:
            position = _end(frame.batch)
            with self._guard:
                self._received[frame.session.sink, frame.session.client] = position
            yield Ack(received=position)

    def close(self) -> None:
        """Nothing is open."""


def _end(batch: Batch) -> Position:
    if not batch.groups:
        return getattr(batch, "from")  # type: ignore[no-any-return]
    last = batch.groups[-1]
    rows = last.first_index + last.block.rows
    seq = last.header.end_seq if last.complete else last.header.start_seq + rows
    return Position(branch=last.header.branch, seq=seq)


def services(sessions: int) -> int:
    """Return how many services so many sessions need."""
    return -(-sessions // _A_SERVICE)


def endpoint(endpoints: Sequence[str], number: int) -> str:
    """Return which of the endpoints a session uses."""
    return endpoints[number // _A_SERVICE]


def serve_null(told: Told, sessions: int) -> None:
    """Serve so many sessions until it is over; tell the endpoints first."""
    from sink.service import serve

    sink = NullSink()
    running = [serve(sink, ["tcp://127.0.0.1:0"]) for _ in range(services(sessions))]
    told.tell([service.endpoints[0] for service in running])
    told.over(None)
    for service in running:
        service.stop()
