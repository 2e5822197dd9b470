"""The sink of one site, writing into its database: the in-process `Sink`, and what the service serves."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from queues import dialects, names
from queues.clock import SYSTEM_CLOCK, Clock
from queues.errors import CorruptFrameError, InvalidNameError, LrqError, TransientError
from queues.leases import Lease
from queues.logs import logger
from queues.names import SiteId
from queues.receive import contents
from queues.receive.moving import MovedError, moved
from queues.receive.receiving import Stored
from queues.transactions import writing
from queues.wire import replication_pb2 as pb
from sink import machine
from sink.gate import Gate
from sink.inbox import Inbox, open_inbox, remembered_inbox
from sink.machine import Refuse, Speaker
from sink.port import PROTOCOL
from sink.streams import Stream, Streams
from sink.wire import position_of, speaker_of, to_refusal

#: Most bytes of rows in one frame, unpacked.
MAX_FRAME_BYTES: Final = 32 * 1024 * 1024

_log = logger("lrq.sink")


class SinkWriter:
    """The `Sink` (see there) of *site*, whose database *engine* opens and keeps.

    *lease* gives the lease that every transaction checks, None while another server works for the site (all is
    refused as TRANSIENT then); without *lease* nothing is checked.
    """

    def __init__(
        self,
        engine: Engine,
        site: SiteId,
        *,
        lease: Callable[[], Lease | None] | None = None,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Take *max_frame_bytes* of unpacked rows in a frame."""
        self._engine = engine
        self._site = site
        self._lease = lease
        self._limit = max_frame_bytes
        self._clock = clock
        self._streams = Streams()
        self._gate = Gate()

    def negotiate(self, request: pb.NegotiateRequest) -> pb.NegotiateResponse:
        """See `Sink`."""
        try:
            answer = self._negotiate(request)
        except (LrqError, SQLAlchemyError) as error:
            answer = _refuse_for(error)
        if isinstance(answer, Refuse):
            _tell(request.session, answer)
            return pb.NegotiateResponse(protocol=PROTOCOL, site=self._site, refusal=to_refusal(answer))
        return answer

    def replicate(self, frames: Iterator[pb.Frame]) -> Iterator[pb.Ack]:
        """See `Sink`."""
        stream = Stream()
        for frame in frames:
            try:
                answer = self._take(frame, stream)
            except (LrqError, SQLAlchemyError) as error:
                answer = _refuse_for(error)
            if isinstance(answer, Refuse):
                _tell(frame.session, answer)
                yield pb.Ack(refusal=to_refusal(answer))
                return
            yield answer

    def close(self) -> None:
        """See `Sink`; others may use this object too, so it goes on until `stop`."""

    def stop(self) -> None:
        """Take nothing more, and return when nothing uses the engine any more."""
        self._gate.close()

    def _negotiate(self, request: pb.NegotiateRequest) -> pb.NegotiateResponse | Refuse:
        if request.protocol != PROTOCOL:
            reason = f"this sink speaks protocol {PROTOCOL}, not {request.protocol}: upgrade the older of the two"
            return Refuse(pb.Refusal.PROTOCOL, reason)
        speaker = speaker_of(request.session)
        with self._writing() as connection:
            inbox = self._open(connection, speaker)
            refuse = machine.admit(inbox.marks, speaker, self._site, negotiated=True)
            if refuse is None:
                inbox.fence(speaker.generation)
                if request.HasField("rollback_to"):
                    refuse = inbox.roll_back(position_of(request.rollback_to))
            answer = refuse or inbox.answer(self._site, PROTOCOL)
        if refuse is None:
            self._streams.begin((speaker.source, speaker.client), speaker.generation)
        return answer

    def _take(self, frame: pb.Frame, stream: Stream) -> pb.Ack | Refuse:
        speaker = speaker_of(frame.session)
        known, stream.known = self._known(frame, speaker, stream), None
        if known is not None:
            # Who finds them moved looks, with the marks locked.
            with suppress(MovedError), moved():
                return self._take_as(frame, speaker, stream, known)
        return self._take_as(frame, speaker, stream, None)

    def _known(self, frame: pb.Frame, speaker: Speaker, stream: Stream) -> Stored | None:
        """Return how the queue stands, as far as is known, when *frame* can be stored at once on that."""
        key = speaker.source, speaker.client
        if stream.known is None or stream.known[0] != key or not frame.HasField("batch"):
            return None
        known = stream.known[1]
        is_ours = known.marks.generation == speaker.generation == self._streams.generation(key)
        return known if is_ours and self._is_small(frame.batch) else None

    def _is_small(self, batch: pb.Batch) -> bool:
        rows, size = _extent(batch)
        return len(batch.groups) <= contents.FEW_HEADERS and dialects.of(self._engine).is_at_once(rows, size)

    def _take_as(self, frame: pb.Frame, speaker: Speaker, stream: Stream, known: Stored | None) -> pb.Ack | Refuse:
        """Take *frame* with the marks locked; on *known* ones without, raising `MovedError` where that does not do."""
        key = speaker.source, speaker.client
        with self._writing() as connection:
            inbox = self._open(connection, speaker, known)
            negotiated = self._streams.admits(key, speaker.generation, stream)
            refuse = machine.admit(inbox.marks, speaker, self._site, negotiated=negotiated)
            if refuse is None:
                inbox.fence(speaker.generation)
                refuse = inbox.take(frame, self._limit)
            if refuse is not None and known is not None:
                raise MovedError
            answer = refuse or inbox.ack()
        stored = inbox.stored()
        if refuse is None and stored is not None:
            stream.known = key, stored
        return answer

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._gate.passed(f"this server of site {self._site}"), writing(self._engine) as connection:
            yield connection

    def _open(self, connection: Connection, speaker: Speaker, known: Stored | None = None) -> Inbox:
        client, source = names.client_name(speaker.client), names.site_id(speaker.source)
        lease, now_us = self._working_under(), self._clock.now_us()
        if known is not None:
            return remembered_inbox(connection, client, source, known, lease, now_us)
        inbox = open_inbox(connection, client, source, lease, now_us)
        # A queue that is not registered yet has no row to keep the generation in.
        inbox.fence(self._streams.generation((source, client)))
        return inbox

    def _working_under(self) -> Lease | None:
        if self._lease is None:
            return None
        lease = self._lease()
        if lease is None:
            raise TransientError(f"this server of site {self._site} stands by while another one works: try that one")
        return lease


def _extent(batch: pb.Batch) -> tuple[int, int]:
    """Return the rows of a batch and their bytes."""
    return sum(group.block.rows for group in batch.groups), sum(group.block.plain_size for group in batch.groups)


def _refuse_for(error: LrqError | SQLAlchemyError) -> Refuse:
    if isinstance(error, CorruptFrameError):
        return Refuse(pb.Refusal.CORRUPT, str(error))
    if isinstance(error, InvalidNameError):
        return Refuse(pb.Refusal.PROTOCOL, str(error))
    if isinstance(error, LrqError):
        return Refuse(pb.Refusal.TRANSIENT, str(error))
    # The driver's first line: the rest, and SQLAlchemy's own words, may quote what was to be stored.
    words = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
    return Refuse(pb.Refusal.TRANSIENT, f"the database of the sink does not take it: {words}")


def _tell(session: pb.SessionId, refuse: Refuse) -> None:
    kind = pb.Refusal.Kind.Name(refuse.kind)
    _log.warning("frame refused", source=session.source, client=session.client, kind=kind, reason=refuse.reason)
