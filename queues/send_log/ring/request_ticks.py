"""Decide on requests of producers over the log of a ring, and divide the accepted ones into ticks.

The functions need the caller's transaction for writing, which writes nothing of the requests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from queues.database.tables.site import site
from queues.entry_headers import text_size
from queues.positions import Position
from queues.send_log.destination_check import forget_old_facts, refused_destinations
from queues.send_log.links import last_change
from queues.send_log.outbox import NewEntry, SourceTransaction
from queues.send_log.port import TickLimits
from queues.send_log.producers import Production, StoreOutcome
from queues.send_log.request_group import AcceptedRequest, RequestGroup
from queues.send_log.ring.productions import standings
from queues.send_log.ring.ring_log import log_end
from queues.send_log.ring.tick_contents import LogEnd
from queues.send_log.ring.tick_productions import TickProduction, token_of


@dataclass(slots=True)
class RequestTick:
    """The accepted requests of one tick, which ends with the entry number `end` of the log.

    `sets` has the bytes of each destination set by its number: a tick carries each once. The limit of their bytes is
    another one of the same size.
    """

    end: int
    transactions: list[SourceTransaction] = field(default_factory=list)
    productions: list[TickProduction] = field(default_factory=list)
    rows: int = 0
    size: int = 0
    sets: dict[int, int] = field(default_factory=dict)

    def has_room(self, rows: int, size: int, sets: dict[int, int], limits: TickLimits) -> bool:
        """Return whether a request of that many *rows* and bytes, with its *sets*, fits too."""
        is_small = self.rows + rows <= limits.rows and self.size + size <= limits.payload_bytes
        return is_small and (sets.keys() <= self.sets.keys() or _bytes_of(self.sets | sets) <= limits.payload_bytes)


@dataclass(frozen=True, slots=True)
class DecidedRequests:
    """The outcome of each request once all of `ticks` are stored after `end`, the newest tick of the log."""

    end: LogEnd
    outcomes: Sequence[StoreOutcome]
    ticks: Sequence[RequestTick]


def decide_requests(connection: Connection, requests: Sequence[Production], limits: TickLimits) -> DecidedRequests:
    """Decide on each of *requests* in order, as if the ones before it were stored.

    A request above *limits*, those of one tick, is refused, and so is one for an unknown destination.
    """
    forget_old_facts(connection, last_change(connection))
    decision = _Decision(connection, requests, limits)
    return DecidedRequests(decision.end, [decision.decide(request) for request in requests], decision.ticks)


class _Decision:
    def __init__(self, connection: Connection, requests: Sequence[Production], limits: TickLimits) -> None:
        self._connection, self._limits = connection, limits
        self._site = connection.execute(select(site.c.site_id)).scalar_one()
        self.end = log_end(connection)
        self.ticks: list[RequestTick] = []
        found = standings(connection, {request.key for request in requests})
        self._places = {key: each.position for key, each in found.items()}
        self._group = RequestGroup({key: each.last for key, each in found.items()}, self._accept)

    def decide(self, request: Production) -> StoreOutcome:
        """Return the outcome of *request*, with the place of its last stored request."""
        outcome = self._group.decide(request, self._doubt(request))
        last = outcome.last
        if outcome.verdict.is_new:
            assert outcome.position is not None
            self._places[request.key] = outcome.position
            tick = self.ticks[-1]
            tick.productions.append(TickProduction(request.key, last.sequence, last.process, last.first, tick.rows))
        return outcome._replace(position=self._places.get(request.key) if last.token else None)

    def _doubt(self, request: Production) -> str:
        return _misfit(request.entries, self._limits) or refused_destinations(
            self._connection, request.key.client, request.entries
        )

    def _accept(self, request: Production) -> AcceptedRequest:
        rows, size, sets = len(request.entries), _size(request.entries), _sets(request.entries)
        tick = self.ticks[-1] if self.ticks else None
        if tick is None or not tick.has_room(rows, size, sets, self._limits):
            tick = RequestTick(self.end.tick.end_seq if tick is None else tick.end)
            self.ticks.append(tick)
        tick.transactions.append(SourceTransaction(request.key.client, request.entries))
        tick.rows += rows
        tick.size += size
        tick.sets |= sets
        tick.end += rows
        position = Position(self.end.tick.branch, tick.end)
        return AcceptedRequest(token_of(self._site, request.key.client, position), 0, position)


def _misfit(entries: Sequence[NewEntry], limits: TickLimits) -> str:
    """Return why no tick can hold the entries of a request; empty if one can. Pure."""
    if not entries:
        return "the request has no messages: add at least one"
    rows, size, named = len(entries), _size(entries), _bytes_of(_sets(entries))
    if named > limits.payload_bytes:
        return (
            f"the request names destinations of {named} bytes in all, but a request to a ring has at most "
            f"{limits.payload_bytes}: send fewer messages at once"
        )
    if rows <= limits.rows and size <= limits.payload_bytes:
        return ""
    return (
        f"the request has {rows} messages of {size} bytes in all, but a request to a ring has at most {limits.rows} "
        f"of {limits.payload_bytes}: send fewer at once"
    )


def _sets(entries: Sequence[NewEntry]) -> dict[int, int]:
    """Return the bytes of each destination set by its number."""
    return {entry.destinations.number: text_size(entry.destinations.text) for entry in entries}


def _bytes_of(sets: Mapping[int, int]) -> int:
    return sum(sets.values())


def _size(entries: Sequence[NewEntry]) -> int:
    """Return the bytes of a request that count for limits, as in `queues.send_log.port.size_of`."""
    texts = (text for entry in entries for text in (entry.headers, entry.partition_key) if text is not None)
    return sum(len(entry.payload) for entry in entries) + sum(map(text_size, texts))
