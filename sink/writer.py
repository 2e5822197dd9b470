"""The `Sink` of one site on its database, used in-process and by the service."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from queues import names
from queues.clock import RANDOM, SYSTEM_CLOCK, Clock
from queues.database import dialects
from queues.database.engine_check import require_engine
from queues.database.transactions import writing
from queues.errors import CorruptFrameError, InvalidNameError, LrqError, StoreUnavailableError, first_line
from queues.names import SiteId
from queues.receive import entries, lineages, wakeups, writer_marks
from queues.receive.marks import ReceiveState
from queues.receive.optimistic_marks import ExpectedMarks, StaleMarks
from queues.receive.writer_marks import Stored
from queues.wire import replication_pb2 as pb
from queues.words import describe
from sink import answers, rollbacks
from sink.frames import hear, take
from sink.gate import Gate
from sink.inbox import Inbox, expect_inbox, open_inbox
from sink.protocol import log_rules, versions
from sink.protocol.log_rules import Refuse, Speaker
from sink.protocol.versions import SPOKEN, ProtocolVersions
from sink.refusals import Refusals, RefusedStep
from sink.streams import LastFrame, SessionKey, Streams, ValidStream
from sink.wire import branches_of, position_of, replay_word_of, speaker_of, to_refusal

#: The most unpacked bytes of rows in one frame.
MAX_FRAME_BYTES: Final = 32 * 1024 * 1024
#: A negotiation ends transactions of other processes on its queue that have stood still for this time, in seconds.
STOPPED_SECONDS: Final = 5.0


class SinkWriter:
    """The `Sink` of *site* on the database of *engine*, which the caller owns.

    Any number of writers, in any processes, may work for one site. Each session has one valid stream at any time.
    """

    def __init__(
        self,
        engine: Engine,
        site: SiteId,
        *,
        others: Callable[[], Sequence[str]] = tuple,
        stopped_seconds: float = STOPPED_SECONDS,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        receive_bytes: int = 0,
        spoken: ProtocolVersions = SPOKEN,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Accept frames of up to *max_frame_bytes* of unpacked rows, in the versions *spoken* of the protocol.

        A receive queue takes log entries while less than *receive_bytes* of them are not applied; 0 for no limit. The
        refusals of a stopping writer name the endpoints that *others* returns: those of the site's other servers. A
        negotiation ends transactions of other processes that have stood still for *stopped_seconds* (PostgreSQL only).
        Raises `UsageError` unless *engine* is an engine.
        """
        self._engine = require_engine(engine, "SinkWriter")
        self._site = site
        self._others = others
        self._stopped_seconds = stopped_seconds
        self._number = RANDOM.getrandbits(31)
        self._limit = max_frame_bytes
        self._receive_bytes = receive_bytes
        self._spoken = spoken
        self._clock = clock
        self._place: wakeups.WakeupPlace | None = None
        self._streams = Streams()
        self._gate = Gate()
        self._refusals = Refusals(clock)

    @property
    def trouble(self) -> str:
        """The reason why no entry can be stored now; empty while all is well."""
        return self._refusals.trouble

    @property
    def lasting_refusal(self) -> str:
        """The reason why the database takes no entry of some session; empty while each session stores."""
        return self._refusals.lasting

    def negotiate(self, request: pb.NegotiateRequest) -> pb.NegotiateResponse:
        """See `Sink`."""
        failure: BaseException | None = None
        try:
            answer = self._negotiate(request)
        except BaseException as error:  # noqa: BLE001 - a bug refuses one request and ends no thread of the transport
            failure, answer = error, _refuse_for(error)
        if isinstance(answer, Refuse):
            # `lrq doctor` asks in version 0, which no source speaks, and wants nothing but the answer.
            if request.protocol:
                self._refusals.note(request.session, RefusedStep.NEGOTIATION, answer, failure)
            return pb.NegotiateResponse(protocol=self._spoken.newest, site=self._site, refusal=to_refusal(answer))
        self._refusals.end(request.session, RefusedStep.NEGOTIATION, stores=False)
        return answer

    def replicate(self, frames: Iterator[pb.Frame]) -> Iterator[pb.Ack]:
        """See `Sink`."""
        stream = ValidStream()
        for frame in frames:
            failure: BaseException | None = None
            try:
                answer = self._take(frame, stream)
            except BaseException as error:  # noqa: BLE001 - see `negotiate`
                failure, answer = error, _refuse_for(error)
            if isinstance(answer, Refuse):
                self._refusals.note(frame.session, RefusedStep.FRAME, answer, failure)
                yield pb.Ack(refusal=to_refusal(answer))
                return
            self._refusals.end(frame.session, RefusedStep.FRAME, stores=_has_rows(frame))
            yield answer

    def close(self) -> None:
        """See `Sink`; without effect, because other sessions may share this object; `stop` is the end."""

    def stop(self) -> None:
        """Refuse further work, and return when no thread uses the engine any more."""
        self._gate.close()

    def _negotiate(self, request: pb.NegotiateRequest) -> pb.NegotiateResponse | Refuse:
        theirs = versions.offered(request.protocol, request.newest_protocol)
        protocol = versions.newest_common(self._spoken, theirs)
        if protocol is None:
            return Refuse(pb.Refusal.PROTOCOL, versions.refusal(self._site, self._spoken, theirs))
        speaker, branches = speaker_of(request.session), branches_of(request)
        self._end_stopped(speaker)
        with self._writing() as connection:
            inbox = self._open(connection, speaker)
            before = inbox.stored()
            refuse = log_rules.admit(inbox.marks, speaker, self._site, negotiated=True)
            if refuse is None and speaker.generation == inbox.marks.generation:
                refuse = self._streams.refusal_of_twin(speaker)
            if refuse is None:
                inbox.begin_stream(speaker.generation)
                if inbox.kept is not None:
                    lineages.keep(connection, inbox.client, inbox.source, branches)
                if request.HasField("rollback_to"):
                    refuse = rollbacks.roll_back(inbox, position_of(request.rollback_to))
                if request.HasField("replay"):
                    rollbacks.replay(inbox, replay_word_of(request.replay))
            answer = refuse or answers.answer(inbox, self._site, protocol)
            self._place = self._place or wakeups.place_of(connection)
        if refuse is None:
            self._wake(before, inbox.stored())
            self._streams.begin(speaker, inbox.version, branches if inbox.kept is None else ())
        return answer

    def _take(self, frame: pb.Frame, stream: ValidStream) -> pb.Ack | Refuse:
        speaker = speaker_of(frame.session)
        last, stream.last = stream.last, None
        if last is not None and (last.key, last.told) != (_key_of(speaker), frame.session.stream):
            last = None
        if last is not None and self._is_expected(frame, speaker, last):
            # No decision is based on stale marks: the frame is decided again with locked marks.
            with suppress(StaleMarks):
                return self._take_as(frame, speaker, stream, last, ExpectedMarks(last.stored))
        return self._take_as(frame, speaker, stream, last, None)

    def _is_expected(self, frame: pb.Frame, speaker: Speaker, last: LastFrame) -> bool:
        """Return whether *frame* can be stored without a lock, on the marks after the *last* frame of its stream."""
        is_ours = last.stored.marks.generation == speaker.generation
        return is_ours and frame.HasField("batch") and self._is_small(frame.batch)

    def _is_small(self, batch: pb.Batch) -> bool:
        # A frame without ticks asks for the subscriber's newest progress, and mostly writes nothing.
        if not 0 < len(batch.groups) <= entries.FEW_HEADERS:
            return False
        size = sum(len(group.block.body) for group in batch.groups)
        return dialects.of(self._engine).is_at_once(len(batch.groups), size)

    def _take_as(
        self,
        frame: pb.Frame,
        speaker: Speaker,
        stream: ValidStream,
        last: LastFrame | None,
        expected: ExpectedMarks | None,
    ) -> pb.Ack | Refuse:
        """Store *frame* on *expected* marks, or with locked marks if None. Raises `StaleMarks`."""
        key, told = _key_of(speaker), frame.session.stream
        with self._writing() as connection:
            inbox = self._open(connection, speaker) if expected is None else self._expect(connection, speaker, expected)
            before = inbox.stored()
            number = self._streams.number(key, speaker.generation, told, stream)
            left = None if last is None else last.stored.version
            negotiated = log_rules.follows(inbox.marks, inbox.version, speaker.generation, number, left)
            refuse = log_rules.admit(inbox.marks, speaker, self._site, negotiated=negotiated)
            if refuse is None:
                if inbox.kept is None and stream.begun is not None:
                    lineages.keep(connection, inbox.client, inbox.source, stream.begun.branches)
                # Before the rows: their last statement may commit.
                hear(inbox, frame)
                refuse = take(inbox, frame, self._limit)
            if refuse is not None and expected is not None:
                raise StaleMarks
            answer = refuse or answers.ack(inbox)
        stored = inbox.stored()
        if refuse is None and stored is not None:
            self._wake(before, stored)
            stream.last = LastFrame(key, told, stored)
        return answer

    def _wake(self, before: Stored | None, after: Stored | None) -> None:
        """Wake the subscribers of a queue that has new work; on PostgreSQL the transaction may have notified them."""
        if self._place is None or after is None:
            return
        if wakeups.brings_work(ReceiveState() if before is None else before.marks, after.marks):
            wakeups.tell(self._place, after.queue_id)

    def _end_stopped(self, speaker: Speaker) -> None:
        client, source = names.client_name(speaker.client), names.site_id(speaker.source)
        with self._gate.passed(self._stopping):
            writer_marks.end_stopped(self._engine, client, source, self._number, self._stopped_seconds)

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._gate.passed(self._stopping), writing(self._engine) as connection:
            yield connection

    def _stopping(self) -> str:
        """Return the sentence for a source that reaches this writer too late."""
        others = ", ".join(self._others())
        return f"this server of site {self._site} stops: try {others or 'again later'}"

    def _open(self, connection: Connection, speaker: Speaker) -> Inbox:
        client, source = names.client_name(speaker.client), names.site_id(speaker.source)
        inbox = open_inbox(
            connection,
            client,
            source,
            self._number,
            self._clock.now_us(),
            receive_bytes=self._receive_bytes,
        )
        # An unregistered queue has no row with a generation, so the one of this server's last negotiation counts.
        if inbox.kept is None:
            inbox.fence(self._streams.generation((source, client)))
        return inbox

    def _expect(self, connection: Connection, speaker: Speaker, expected: ExpectedMarks) -> Inbox:
        client, source = names.client_name(speaker.client), names.site_id(speaker.source)
        return expect_inbox(
            connection, client, source, expected, self._clock.now_us(), receive_bytes=self._receive_bytes
        )


def _has_rows(frame: pb.Frame) -> bool:
    # A frame without ticks asks for the subscriber's newest progress.
    return not frame.HasField("batch") or bool(frame.batch.groups)


def _key_of(speaker: Speaker) -> SessionKey:
    return speaker.source, speaker.client


def _refuse_for(error: BaseException) -> Refuse:
    if isinstance(error, CorruptFrameError):
        return Refuse(pb.Refusal.CORRUPT, str(error))
    if isinstance(error, InvalidNameError):
        return Refuse(pb.Refusal.PROTOCOL, str(error))
    if isinstance(error, StoreUnavailableError):
        # The source shows the sentence, beside those of its own database.
        return Refuse(pb.Refusal.TRANSIENT, f"the sink's database: {error}")
    if isinstance(error, LrqError):
        return Refuse(pb.Refusal.TRANSIENT, str(error))
    if not isinstance(error, SQLAlchemyError):
        return Refuse(pb.Refusal.TRANSIENT, f"the sink failed unexpectedly: {describe(error)}")
    # Only the driver's first line: the other lines, and SQLAlchemy's text, may contain payloads.
    words = first_line(getattr(error, "orig", None) or error)
    return Refuse(pb.Refusal.TRANSIENT, f"the database of the sink does not take it: {words}")
