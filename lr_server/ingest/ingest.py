"""Takes requests of producers at every server of a site; the server that leads the log stores them."""

from collections import Counter
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

import grpc
from sqlalchemy import Engine

from discovery.threads import OnEnded
from lr_server.ingest.refusal import Refusal, refused
from lr_server.ingest.request_check import RequestLimits, check, parse
from lr_server.ingest.servicer import STREAMS, IngestServicer
from lr_server.ingest.stream import Settle
from lr_server.ingest.waiting import Pending, Room
from lr_server.ingest.work import IngestWork
from lr_server.settings import Settings
from queues.clock import Clock
from queues.send_log.port import TickRows
from queues.wire import ingest_pb2 as pb

#: The most requests of one commit.
GROUP: Final = 1_024
#: The longest wait for the tick that makes stored requests durable when the server stops, in seconds.
_PATIENCE: Final = 2.0


class Leader(NamedTuple):
    """Whether this server leads the log, and otherwise the endpoint of the server that does; empty if unknown."""

    is_me: bool
    endpoint: str = ""


class Ingest:
    """The service `Ingest` of one server; *leader* tells which server stores requests now."""

    def __init__(self, engine: Engine, settings: Settings, *, leader: Callable[[], Leader], clock: Clock) -> None:
        self._engine = engine
        self._settings = settings
        self._leader = leader
        self._clock = clock
        self._limits = RequestLimits(
            request_bytes=settings.max_message_bytes,
            payload_bytes=settings.max_payload_bytes,
            messages=settings.tick_rows,
            clients=frozenset(settings.clients),
            rules=settings.producers,
        )
        self._work: IngestWork | None = None
        self._stopping = ""
        self._servicer = IngestServicer(self._take, clock)
        self.refusals: Counter[str] = Counter()

    @property
    def handlers(self) -> grpc.GenericRpcHandler:
        """GRPC's handlers of the service."""
        return self._servicer.handlers()

    @property
    def threads(self) -> int:
        """The most streams, each of which occupies a thread of the site's service."""
        return STREAMS

    @property
    def trouble(self) -> str:
        """The reason why requests cannot be stored now; empty while all is well."""
        work = self._work
        return "" if work is None else work.trouble

    def lead(self, wake: Callable[[], None], on_ended: OnEnded) -> None:
        """Begin to store requests; *wake* makes the sequencer look for entries."""
        group = Room(GROUP, self._settings.tick_bytes)
        work = IngestWork(self._engine, group, wake=wake, clock=self._clock, on_ended=on_ended)
        work.start()
        self._work = work

    def follow(self) -> None:
        """Store no further requests: another server leads, or this one stops."""
        work, self._work = self._work, None
        if work is not None:
            work.stop(self._stopping or "this server does not lead its site any more: try again", _PATIENCE)

    def stop(self) -> None:
        """Refuse all further requests, and answer those that are stored. May be called twice."""
        self._stopping = "this server stops: try again later"
        self.follow()

    def ticked(self, group: TickRows) -> None:
        """Hear of a durable tick, in the thread of the sequencer."""
        work = self._work
        if work is not None:
            work.ticked(group)

    def _take(self, message: bytes, certified: Collection[str] | None, settle: Settle) -> None:
        request = parse(message, self._limits)
        if isinstance(request, Refusal):
            self._refuse(0, request, settle)
            return
        production = check(request, self._limits, certified)
        if isinstance(production, Refusal):
            self._refuse(request.sequence, production, settle)
            return
        refusal = self._admit(Pending(production, len(message), settle))
        if refusal is not None:
            self._refuse(request.sequence, refusal, settle)

    def _admit(self, pending: Pending) -> Refusal | None:
        """Let a request wait; return the refusal if it cannot."""
        if self._stopping:
            return Refusal(pb.ProduceRefusal.TRANSIENT, self._stopping)
        work = self._work
        if work is None:
            leader = self._leader()
            where = f": send it to {leader.endpoint}" if leader.endpoint else ": try again later"
            return Refusal(
                pb.ProduceRefusal.NOT_LEADER, f"another server of this site stores requests{where}", 0, leader.endpoint
            )
        reason = work.waiting.put(pending)
        return Refusal(pb.ProduceRefusal.FULL, reason) if reason else None

    def _refuse(self, sequence: int, refusal: Refusal, settle: Settle) -> None:
        self.refusals[pb.ProduceRefusal.Kind.Name(refusal.kind)] += 1
        settle(refused(sequence, refusal))
