"""Takes requests of producers at every server of a site; the server that leads the log stores them."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import grpc
from sqlalchemy import Engine

from discovery.rings import WHOLE
from discovery.threads import OnEnded
from lr_server.ingest.counters import IngestCounters
from lr_server.ingest.followers import Followers, FollowerWatch
from lr_server.ingest.intake import Intake, IntakeRules, Leader
from lr_server.ingest.pending import Pending
from lr_server.ingest.refusal import Refusal
from lr_server.ingest.request_check import RequestLimits
from lr_server.ingest.servicer import STREAMS, IngestServicer
from lr_server.ingest.under_way import UnderWay
from lr_server.ingest.waiting import Room
from lr_server.ingest.work import IngestWork
from lr_server.settings import Settings
from queues.clock import Clock
from queues.send_log.opening import open_store
from queues.send_log.port import TickLimits, TickRows
from queues.send_log.producers import Store
from queues.wire import ingest_pb2 as pb

#: The most requests of one commit.
GROUP: Final = 1_024
#: The longest wait for the tick that makes stored requests durable when the server stops, in seconds.
_PATIENCE: Final = 2.0


#: Returns the store of an engine's database, with the limits of one tick.
NewStore = Callable[[Engine, TickLimits], Store]


class IngestFacts(NamedTuple):
    """The state of ingest at one server; `waiting` requests are not stored yet."""

    requests: int
    messages: int
    refusals: dict[str, int]
    waiting: int
    streams: int
    groups: int
    forwarded: int


class Ingest:
    """The service `Ingest` of one server.

    *leader* tells which server stores requests now, and *new_store* opens the store when this one does. *followers*
    returns the number of synchronous standby servers of the database, None if that is unknown.
    """

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        *,
        leader: Callable[[], Leader],
        followers: Followers,
        clock: Clock,
        new_store: NewStore = open_store,
    ) -> None:
        self._engine = engine
        self._new_store = new_store
        self._settings = settings
        self._clock = clock
        self._work: IngestWork | None = None
        self._stopping = ""
        self._followers = FollowerWatch(followers, settings.require_followers, settings.stall_seconds, clock)
        self._counters = IngestCounters()
        share = WHOLE if settings.ring is None else settings.ring.share(settings.site_id)
        rules = IntakeRules(
            settings.site,
            _limits(settings),
            leader,
            lambda: self._settings.credentials,
            self._counters,
            UnderWay(),
            share,
        )
        self._servicer = IngestServicer(lambda certified, settle: Intake(self, rules, certified, settle), clock)

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
        """The reason why requests cannot be stored now; empty while all is well. Probes must not wait for it."""
        work = self._work
        return "" if work is None else work.trouble or self._followers.last_refusal()

    @property
    def facts(self) -> IngestFacts:
        """The state of ingest now."""
        work, counters = self._work, self._counters
        return IngestFacts(
            counters.requests.value,
            counters.messages.value,
            dict(counters.refusals),
            0 if work is None else len(work.waiting),
            self._servicer.streams(),
            counters.groups.value,
            counters.forwarded.value,
        )

    def lead(self, wake: Callable[[], None], on_ended: OnEnded) -> None:
        """Begin to store requests; *wake* makes the sequencer look for entries."""
        group = Room(GROUP, self._settings.tick_bytes)
        tick = TickLimits(self._settings.tick_rows, self._settings.tick_bytes)
        work = IngestWork(
            self._new_store(self._engine, tick),
            group,
            counters=self._counters,
            wake=wake,
            clock=self._clock,
            on_ended=on_ended,
        )
        self._followers.begin()
        work.start()
        self._work = work

    def follow(self) -> None:
        """Store no further requests: another server leads, or this one stops."""
        work = self._work
        if work is None:
            return
        # Until the end, ticks may answer requests.
        work.stop(self._stopping or "this server does not lead its site any more: try again", _PATIENCE)
        if self._work is work:
            self._work = None

    def stop(self) -> None:
        """Refuse all further requests, and answer those that are stored. May be called twice."""
        self._stopping = "this server stops: try again later"
        self.follow()

    def ticked(self, group: TickRows) -> None:
        """Hear of a durable tick, in the thread of the sequencer."""
        work = self._work
        if work is not None:
            work.ticked(group)

    def interrupted(self) -> None:
        """Hear that the sequencer begins anew, in its thread, before its next tick."""
        work = self._work
        if work is not None:
            work.interrupted()

    def admit(self, requests: Sequence[Pending]) -> Refusal | None:
        """See `Desk`."""
        work = self._work
        if work is None:
            reason = self._stopping or "this server begins to lead its site: try again"
            return Refusal(pb.ProduceRefusal.TRANSIENT, reason)
        if reason := self._followers.refusal():
            return Refusal(pb.ProduceRefusal.NO_FOLLOWER, reason)
        return work.admit(requests)


def _limits(settings: Settings) -> RequestLimits:
    return RequestLimits(
        request_bytes=settings.max_message_bytes,
        payload_bytes=settings.max_payload_bytes,
        messages=settings.tick_rows,
        clients=frozenset(settings.clients),
        rules=settings.producers,
    )
