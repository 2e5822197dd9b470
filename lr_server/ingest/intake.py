"""Check the messages of one stream, and store, forward or refuse each."""

from collections.abc import Callable, Collection
from typing import Final, NamedTuple, Protocol

from discovery.rings import WHOLE, Share
from lr_server.ingest.counters import IngestCounters
from lr_server.ingest.forwarding import Forwarding
from lr_server.ingest.one_way import HERE, OneWay
from lr_server.ingest.refusal import Refusal, refused
from lr_server.ingest.request_check import RequestLimits, check, parse
from lr_server.ingest.share_check import foreign_key
from lr_server.ingest.stream import Settle
from lr_server.ingest.under_way import UnderWay
from lr_server.ingest.waiting import Pending
from queues.wire import ingest_pb2 as pb
from sink.transport.credentials import Credentials

_MOVED: Final = Refusal(pb.ProduceRefusal.TRANSIENT, "another server begins to store requests now: try again", 0, "")


class Leader(NamedTuple):
    """Whether this server leads the log, and otherwise the endpoint of the server that does; empty if unknown.

    `lack` tells why no server can store requests now, as far as this one knows; empty if one can.
    """

    is_me: bool
    endpoint: str = ""
    lack: str = ""


class Desk(Protocol):
    """The part of a server that takes checked requests."""

    def admit(self, pending: Pending) -> Refusal | None:
        """Let a request wait to be stored; return the refusal if it cannot."""
        ...


class IntakeRules(NamedTuple):
    """The rules and counters of all streams of a server."""

    site: str
    limits: RequestLimits
    leader: Callable[[], Leader]
    credentials: Callable[[], Credentials | None]
    counters: IngestCounters
    under_way: UnderWay
    #: The keys of this ring; only the server that stores refuses others, since it knows which requests are stored.
    share: Share = WHOLE


class Intake:
    """Takes the messages of one stream; *certified* are the names in the caller's certificate, None without TLS."""

    def __init__(self, desk: Desk, rules: IntakeRules, certified: Collection[str] | None) -> None:
        self._desk = desk
        self._rules = rules
        self._certified = certified
        self._forwarding: Forwarding | None = None
        self._one_way = OneWay()

    def take(self, message: bytes, settle: Settle) -> None:
        """Check a message, and store it, forward it or refuse it; *settle* gets the reply."""
        request = parse(message, self._rules.limits)
        if isinstance(request, Refusal):
            self._refuse(0, request, settle)
            return
        production = check(request, self._rules.limits, self._believed(request))
        if isinstance(production, Refusal):
            self._refuse(request.sequence, production, settle)
            return
        self._rules.counters.requests.add(1)
        self._rules.counters.messages.add(len(request.messages))
        leader = self._rules.leader()
        if not self._one_way.enter(HERE if leader.is_me else leader.endpoint):
            self._refuse(request.sequence, _MOVED, settle)
            return

        def answer(reply: pb.ProduceReply | None) -> None:
            self._one_way.leave()
            settle(reply)

        if leader.lack:
            refusal: Refusal | None = Refusal(pb.ProduceRefusal.NO_FOLLOWER, leader.lack)
        elif leader.is_me:
            refusal = self._admit(Pending(production, len(message), answer))
        else:
            refusal = self._forward_counted(leader, request, len(message), answer)
        if refusal is not None:
            self._refuse(request.sequence, refusal, answer)

    def close(self) -> None:
        """End the stream to the leader, if there is one."""
        if self._forwarding is not None:
            self._forwarding.close()

    def _admit(self, pending: Pending) -> Refusal | None:
        keys = (entry.partition_key for entry in pending.production.entries)
        problem = foreign_key(keys, self._rules.share)
        return Refusal(pb.ProduceRefusal.NOT_ALLOWED, problem) if problem else self._desk.admit(pending)

    def _believed(self, request: pb.ProduceRequest) -> Collection[str] | None:
        """Return the certified names, or None for a request that another server of this site has checked."""
        is_ours = self._certified is not None and self._rules.site in self._certified
        return None if request.hops and is_ours else self._certified

    def _forward_counted(self, leader: Leader, request: pb.ProduceRequest, size: int, settle: Settle) -> Refusal | None:
        under_way = self._rules.under_way
        if full := under_way.enter(size):
            return Refusal(pb.ProduceRefusal.FULL, full)

        def answer(reply: pb.ProduceReply | None) -> None:
            under_way.leave(size)
            settle(reply)

        refusal = self._forward(leader, request, answer)
        if refusal is not None:
            under_way.leave(size)
        return refusal

    def _forward(self, leader: Leader, request: pb.ProduceRequest, settle: Settle) -> Refusal | None:
        """Send a request to the leader, at most one hop; return the refusal otherwise."""
        endpoint = leader.endpoint
        if not endpoint or request.hops:
            where = f": send them to {endpoint}" if endpoint else ", and none does now: try again later"
            reason = f"another server of this site stores requests{where}"
            return Refusal(pb.ProduceRefusal.NOT_LEADER, reason, 0, endpoint)
        if self._forwarding is None:
            self._forwarding = Forwarding(self._rules.credentials())
        problem = self._forwarding.send(endpoint, request, settle)
        if problem:
            return Refusal(pb.ProduceRefusal.NOT_LEADER, problem, 0, endpoint)
        self._rules.counters.forwarded.add(1)
        return None

    def _refuse(self, sequence: int, refusal: Refusal, settle: Settle) -> None:
        self._rules.counters.refused(refusal.kind)
        settle(refused(sequence, refusal))
