"""The connection of one session to its sink: the way there, the sink's answers, and the stream of frames."""

from collections.abc import Callable
from functools import partial
from typing import Final

from lr_server.protocol import answers
from lr_server.protocol.answers import SentLog
from lr_server.protocol.events import Event, RefusalKind, Refused
from lr_server.protocol.histories import SinkHistory
from lr_server.session.context import Leadership, SessionContext
from lr_server.session.fence import SessionFence
from lr_server.session.history import told_branches
from lr_server.session.inflight import Inflight
from lr_server.session.replaced import ReplacedCount
from lr_server.session.sink_progress import SinkProgress
from lr_server.session.staged_build import StagedBuild
from lr_server.session.stream import FrameStream
from lr_server.session.stream_context import StreamContext
from lr_server.session.traffic import SessionTraffic
from lr_server.session.work import Work
from queues.errors import PeerUnreachableError
from queues.names import MAX_NAME_LENGTH
from queues.positions import Position
from queues.send_log.port import SessionKey
from queues.wire.replication_pb2 import NegotiateRequest, NegotiateResponse, ReplayAnswer, SessionId
from queues.wire.replication_pb2 import Position as WirePosition
from queues.words import cleaned
from sink.port import RestingSink, Sink
from sink.protocol.versions import SPOKEN, unspoken

#: The longest wait for the end of a stream whose session changes its lane, in seconds.
_LEAVE_SECONDS: Final = 2.0


class SinkConnection:
    """Asks the sink of one session, and sends frames to it; for the session's thread."""

    def __init__(
        self,
        owed: SessionKey,
        context: SessionContext,
        leadership: Leadership,
        fence: SessionFence,
        *,
        replaced: ReplacedCount,
        traffic: SessionTraffic,
        report: Callable[[Event, FrameStream], None],
    ) -> None:
        """Prepare the connection; `ask` connects. The streams pass their events to *report*."""
        #: The open stream; the supervisor looks at it too.
        self.stream: FrameStream | None = None
        self.progress = SinkProgress()
        #: The build of the rows that the sink has staged.
        self.staged = StagedBuild()
        #: Whether the sink knows the end of a stream.
        self.takes_end = False
        #: The snapshot for which the session uses the way of snapshots; empty on the way of the log.
        self.way_of = ""
        #: The branches of the log that the session may send.
        self.branches: frozenset[str] = frozenset()
        #: The ticks for this session.
        self.outgoing = context.outgoing(owed)
        #: The log that the sink can store after its last rollback or snapshot, as far as it was sent.
        self.sent: SentLog | None = None
        self.fence = fence
        self.traffic = traffic
        self._owed = owed
        self._context = context
        self._leadership = leadership
        self._replaced = replaced
        self._report = report
        self._sink: Sink | RestingSink | None = None
        self._room: int | None = None
        # Whether the last stream ended as if its line were slow.
        self._is_slow = False

    def ask(self, rollback_to: Position | None = None, replay: ReplayAnswer | None = None) -> NegotiateResponse:
        """Connect if necessary, and ask the sink for its history; see `Sink.negotiate`."""
        if self._sink is None:
            self._sink = self._context.connect(self._owed, for_snapshots=bool(self.way_of), is_slow=self._is_slow)
        self.fence.read()
        request = NegotiateRequest(protocol=SPOKEN.oldest, newest_protocol=SPOKEN.newest, session=self._name())
        request.branches.extend(told_branches(self._context.engine))
        request.session.installation = f"{self._leadership.branch}{self.fence.holder}"
        if rollback_to is not None:
            request.rollback_to.CopyFrom(WirePosition(branch=rollback_to.branch, seq=rollback_to.seq))
        if replay is not None:
            request.replay.CopyFrom(replay)
        return self._sink.negotiate(request)

    def refusal(self, answer: NegotiateResponse) -> Refused | None:
        """Return the reason why the session cannot go on with the site that answers; None if it can."""
        if answer.HasField("refusal"):
            return answers.refused(answer.refusal)
        if words := unspoken(answer.protocol, SPOKEN):
            return Refused(RefusalKind.PROTOCOL, words)
        if answer.site != self._owed.destination:
            there = cleaned(answer.site, MAX_NAME_LENGTH)
            words = f"site {there!r} answers at the endpoint of {self._owed.destination!r}: correct `peers`"
            return Refused(RefusalKind.WRONG_SITE, words)
        return None

    def refusal_beside(self, answer: NegotiateResponse) -> Refused | None:
        """Return `refusal` for an exchange that is no negotiation.

        An order for a replay then needs a negotiation: the sink ends a stream for each order once only.
        """
        if (refusal := self.refusal(answer)) is None and answer.HasField("replay"):
            return Refused(RefusalKind.TRANSIENT, f"{self._owed.destination} has ordered a replay")
        return refusal

    def hear(self, answer: NegotiateResponse) -> SinkHistory:
        """Keep the progress, room and abilities that the sink tells; return its history."""
        sink = answers.history_of(answer)
        self.progress.note(answer.received.seq, answer.applied_seq)
        self.staged.told(sink.staged)
        self._room = answer.room if answer.HasField("room") else None
        self.takes_end = answer.takes_end
        self._context.heard(self._owed.destination, answer.active_generation)
        return sink

    def take_way(self, sync_id: str) -> Refused | None:
        """Connect by the way of the snapshot *sync_id*, or of the log if it is empty.

        Return the sink's refusal, if any.
        """
        is_there = bool(self.way_of) == bool(sync_id)
        self.way_of = sync_id
        if is_there or not self._context.has_snapshot_way(self._owed):
            return None
        self.leave()
        answer = self.ask()
        if refusal := self.refusal_beside(answer):
            return refusal
        self.hear(answer)
        self.open(answer)
        return None

    def open(self, answer: NegotiateResponse) -> None:
        """Start the stream that *answer* allows; `assign` gives work to it."""
        session = self._name()
        if answer.HasField("stream"):
            session.stream = answer.stream
        limits = self._context.limits
        if self._sink is None:
            raise PeerUnreachableError("the connection was closed before it was used")
        context = StreamContext(
            session=session,
            paths=self._context.paths(self.outgoing),
            branches=self.branches,
            inflight=Inflight(
                max_frames=limits.window_frames,
                max_bytes=limits.window_bytes,
                clock=self._context.clock,
                room=self._room,
            ),
            replaced=self._replaced,
            traffic=self.traffic,
            progress=self.progress,
            batch_bytes=limits.batch_bytes,
            heartbeat=limits.heartbeat_seconds,
            clock=self._context.clock,
            changed=partial(self._context.changed.note, self._owed),
        )
        stream = FrameStream(self._sink, context, answer.received, report=lambda event: self._report(event, stream))
        # The machine may have no thread, and a stream that has not begun never ends.
        stream.start()
        self.stream = stream

    @property
    def window_percent(self) -> int:
        """The used share of the open stream's window, in percent; 0 without a stream."""
        stream = self.stream  # another thread may disconnect meanwhile
        return 0 if stream is None else stream.window_percent

    def assign(self, work: Work | None) -> None:
        """Let the open stream send *work* from now on; None for nothing."""
        if self.stream is not None:
            self.stream.assign(work)

    def disconnect(self) -> None:
        """End the stream and the connection, if there are any."""
        stream, self.stream = self.stream, None
        sink, self._sink = self._sink, None
        if stream is not None:
            self._is_slow = stream.may_be_slow
            stream.close()
        if sink is not None:
            sink.close()
        if stream is not None:
            stream.join()

    def leave(self) -> None:
        """Disconnect after the end of the stream: its frames in flight are answered, and others keep its connection."""
        if self.stream is not None:
            self.stream.finish()
            self.stream.join(_LEAVE_SECONDS)
        self.disconnect()

    def _name(self) -> SessionId:
        return SessionId(
            source=self._context.site,
            sink=self._owed.destination,
            client=self._owed.client,
            generation=self.fence.generation,
        )
