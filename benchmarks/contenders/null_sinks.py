"""Sinks that acknowledge every frame and store nothing, to measure a source with hundreds of sessions."""

import threading
from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.contenders.workers import Told
from queues.wire.replication_pb2 import Ack, Batch, Frame, NegotiateRequest, NegotiateResponse, Position, TickHeader
from sink.protocol.versions import SPOKEN

#: The most sessions of one service.
_A_SERVICE: Final = 200


class NullSink:
    """A sink that remembers only the position and the newest tick of each session; nothing waits for a subscriber."""

    def __init__(self) -> None:
        """Start without sessions."""
        self._guard = threading.Lock()
        self._received: dict[tuple[str, str], Position] = {}
        # Without a tick that both sides know, a session that connects again would need a snapshot.
        self._ticks: dict[tuple[str, str], TickHeader] = {}

    def negotiate(self, request: NegotiateRequest) -> NegotiateResponse:
        """Return the position of the session, and its newest tick."""
        session = request.session
        with self._guard:
            position = self._received.get((session.sink, session.client), Position())
            tick = self._ticks.get((session.sink, session.client))
        return NegotiateResponse(
            protocol=SPOKEN.newest,
            site=session.sink,
            received=position,
            boundary=Position() if tick is None else Position(branch=tick.branch, seq=tick.end_seq),
            applied_seq=position.seq,
            headers=[] if tick is None else [tick],
        )

    def replicate(self, frames: Iterator[Frame]) -> Iterator[Ack]:
        """Acknowledge each frame at once."""
        for frame in frames:
            position = _end(frame.batch)
            session = frame.session.sink, frame.session.client
            with self._guard:
                self._received[session] = position
                for group in frame.batch.groups:
                    if group.complete:
                        self._ticks[session] = group.header
            yield Ack(received=position, applied_seq=position.seq)

    def close(self) -> None:
        """Do nothing: the sink holds no resources."""


def _end(batch: Batch) -> Position:
    if not batch.groups:
        return batch.start
    last = batch.groups[-1]
    rows = last.first_index + last.block.rows
    seq = last.header.end_seq if last.complete else last.header.start_seq + rows
    return Position(branch=last.header.branch, seq=seq)


def services(sessions: int) -> int:
    """Return the number of services for *sessions*."""
    return -(-sessions // _A_SERVICE)


def endpoint(endpoints: Sequence[str], number: int) -> str:
    """Return the endpoint of a session."""
    return endpoints[number // _A_SERVICE]


def serve_null(told: Told, sessions: int) -> None:
    """Report the endpoints, then serve *sessions* sessions until the end of the run."""
    from sink.transport.service import serve

    sink = NullSink()
    running = [serve(sink, ["tcp://127.0.0.1:0"]) for _ in range(services(sessions))]
    told.tell([service.endpoints[0] for service in running])
    told.over(None)
    for service in running:
        service.stop()


def serve_attached(told: Told, sessions: int, source: str) -> None:
    """Attach a sink for each session to the source at the endpoint *source*, until the end of the run."""
    from benchmarks.contenders.lrq_sites import site_name
    from queues.names import SiteId
    from sink.attachment.attached_line import AttachTo
    from sink.attachment.attacher import Attacher
    from sink.transport.endpoints import network_endpoint

    sink, to = NullSink(), [AttachTo(SiteId("source"), network_endpoint(source))]
    running = [Attacher(sink, SiteId(site_name(number)), to) for number in range(sessions)]
    for attacher in running:
        attacher.start()
    told.tell([source])
    told.over(None)
    for attacher in running:
        attacher.stop(grace=0.0)
