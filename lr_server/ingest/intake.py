"""Check the messages of one stream, and store, forward or refuse each."""

from collections.abc import Callable, Collection, Sequence
from itertools import groupby
from typing import Final, NamedTuple, Protocol

from discovery.rings import WHOLE, Share
from lr_server.ingest.counters import IngestCounters
from lr_server.ingest.forwarding import Forwarding
from lr_server.ingest.one_way import HERE, OneWay
from lr_server.ingest.pending import MESSAGE_BYTES, Pending, Reply, Settle, Slot
from lr_server.ingest.refusal import Refusal, refused
from lr_server.ingest.request_check import RequestChecks, RequestLimits, parse
from lr_server.ingest.share_check import first_foreign
from lr_server.ingest.under_way import UnderWay
from lr_server.ingest.waiting import Room
from queues.send_log.producers import ProducerKey, Production
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

    def admit(self, requests: Sequence[Pending]) -> Refusal | None:
        """Let *requests* of one producer wait to be stored; if they cannot, return the refusal and let none wait."""
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


class _Asked(NamedTuple):
    """A checked request."""

    request: pb.ProduceRequest
    production: Production
    slot: Slot


class _Problem(NamedTuple):
    """The first request that is refused; those before it are not."""

    slot: Slot
    sequence: int
    refusal: Refusal


class Intake:
    """Takes the requests of one stream, whose slots *settle* settles.

    *certified* are the names in the caller's certificate, None without TLS.
    """

    def __init__(self, desk: Desk, rules: IntakeRules, certified: Collection[str] | None, settle: Settle) -> None:
        self._desk = desk
        self._rules = rules
        self._certified = certified
        self._settle = settle
        self._checks = RequestChecks(rules.limits)
        self._one_way = OneWay()
        self._forwarding = Forwarding(rules.credentials, self._settle_forwarded)

    def take(self, requests: Sequence[bytes], slots: Sequence[Slot]) -> None:
        """Store or forward *requests* up to the first that is wrong, and refuse that one."""
        asked, problem = self._checked(requests, slots)
        for _, run in groupby(asked, key=_producer):
            if (first := self._send(list(run))) is not None:
                problem = first
                break
        if problem is not None:
            self._rules.counters.refused(problem.refusal.kind)
            self._settle([(problem.slot, refused(problem.sequence, problem.refusal))])

    def close(self) -> None:
        """End the stream to the leader, if there is one."""
        self._forwarding.close()

    def _checked(self, requests: Sequence[bytes], slots: Sequence[Slot]) -> tuple[list[_Asked], _Problem | None]:
        """Return the requests before the first that is wrong, and this one."""
        asked: list[_Asked] = []
        for message, slot in zip(requests, slots, strict=True):
            request = parse(message, self._rules.limits)
            if isinstance(request, Refusal):
                return asked, _Problem(slot, 0, request)
            production = self._checks.check(request, self._believed(request))
            if isinstance(production, Refusal):
                return asked, _Problem(slot, request.sequence, production)
            slot.size += MESSAGE_BYTES * len(production.entries)
            asked.append(_Asked(request, production, slot))
        return asked, None

    def _send(self, run: Sequence[_Asked]) -> _Problem | None:
        """Store or forward requests of one producer; return the first that is refused."""
        self._rules.counters.requests.add(len(run))
        self._rules.counters.messages.add(sum(len(asked.production.entries) for asked in run))
        leader = self._rules.leader()
        sent = 0
        if not self._one_way.enter(HERE if leader.is_me else leader.endpoint, len(run)):
            return _problem(run[0], _MOVED)
        if leader.lack:
            refusal: Refusal | None = Refusal(pb.ProduceRefusal.NO_FOLLOWER, leader.lack)
        elif leader.is_me:
            sent, refusal = self._admit(run)
        else:
            refusal = self._forward(leader, run)
        if refusal is None:
            return None
        self._one_way.leave(len(run) - sent)
        return _problem(run[sent], refusal)

    def _admit(self, run: Sequence[_Asked]) -> tuple[int, Refusal | None]:
        """Let requests wait until one is refused; return the number of those that wait, and the refusal."""
        keys = ([entry.partition_key for entry in asked.production.entries] for asked in run)
        place, problem = first_foreign(keys, self._rules.share) or (len(run), "")
        own = [Pending(asked.production, asked.slot, self._settle_one_way) for asked in run[:place]]
        if own and (refusal := self._desk.admit(own)) is not None:
            return 0, refusal
        return place, Refusal(pb.ProduceRefusal.NOT_ALLOWED, problem) if problem else None

    def _forward(self, leader: Leader, run: Sequence[_Asked]) -> Refusal | None:
        """Send requests to the leader, at most one hop; return the refusal if none of them goes on."""
        endpoint = leader.endpoint
        size = Room(len(run), sum(asked.slot.size for asked in run))
        if full := self._rules.under_way.enter(size):
            return Refusal(pb.ProduceRefusal.FULL, full)
        if not endpoint or run[0].request.hops:
            where = f": send them to {endpoint}" if endpoint else ", and none does now: try again later"
            problem = f"another server of this site stores requests{where}"
        else:
            problem = self._forwarding.send(endpoint, [asked.request for asked in run], [asked.slot for asked in run])
        if problem:
            self._rules.under_way.leave(size)
            return Refusal(pb.ProduceRefusal.NOT_LEADER, problem, 0, endpoint)
        self._rules.counters.forwarded.add(len(run))
        return None

    def _settle_one_way(self, replies: Sequence[tuple[Slot, Reply]]) -> None:
        self._one_way.leave(len(replies))
        self._settle(replies)

    def _settle_forwarded(self, replies: Sequence[tuple[Slot, Reply]]) -> None:
        self._rules.under_way.leave(Room(len(replies), sum(slot.size for slot, _ in replies)))
        self._settle_one_way(replies)

    def _believed(self, request: pb.ProduceRequest) -> Collection[str] | None:
        """Return the certified names, or None for a request that another server of this site has checked."""
        is_ours = self._certified is not None and self._rules.site in self._certified
        return None if request.hops and is_ours else self._certified


def _producer(asked: _Asked) -> tuple[ProducerKey, int]:
    """Return the facts that requests share which go on together."""
    return asked.production.key, asked.request.hops


def _problem(asked: _Asked, refusal: Refusal) -> _Problem:
    return _Problem(asked.slot, asked.request.sequence, refusal)
