"""Find the places of many stored requests with few statements: most of one look's cost is the round trips."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple, Self

from sqlalchemy import Connection

from queues.database.postgresql.pipeline import exchange
from queues.database.postgresql.prepared_statements import Array
from queues.names import ClientName
from queues.positions import Position, PositionToken, Tick, Visibility
from queues.send_log.postgresql.covering_ticks import covering_ticks
from queues.send_log.postgresql.reads import commits_within
from queues.send_log.postgresql.windows import NOTHING, plan
from queues.send_log.producers import Last, Place, ProducerKey, has_kept

_LASTS: Final = """
    SELECT p.client, p.producer, p.sequence, p.token, p.process, p.first_sequence, p.request
    FROM unnest(%(clients)s::text[], %(producers)s::text[]) AS n (client, producer)
    JOIN lrq_producers p USING (client, producer)
"""
_BRANCH: Final = "SELECT branch FROM lrq_site"
_COMMITTED: Final = "SELECT xid, commit_seq FROM lrq_log_commits WHERE xid = ANY(%(xids)s::bigint[])"
# The entries of later requests in the transaction of each request.
_LATER: Final = """
    SELECT xid, request, later FROM (
      SELECT xid, coalesce(request, 0) AS request, (sum(count(*)) OVER (
        PARTITION BY xid ORDER BY coalesce(request, 0) DESC) - count(*))::bigint AS later
      FROM lrq_log_entries WHERE xid = ANY(%(xids)s::bigint[]) GROUP BY 1, 2) AS found
    WHERE request = ANY(%(requests)s::integer[])
"""
_MARKS: Final = "SELECT number, mark FROM lrq_ticks WHERE number = ANY(%(numbers)s::bigint[])"
_TRIMMED: Final = "SELECT trimmed_seq FROM lrq_log_head"
_PLAN: Final = plan() + ", set_config('plan_cache_mode', 'force_custom_plan', true)"
_LOST: Final = Place(is_durable=False, is_lost=True)
_WAITS: Final = Place(is_durable=False)
_DURABLE: Final = Place(is_durable=True)


class _Request(NamedTuple):
    """A stored request by its branch, the id of its transaction and its number there."""

    branch: str
    xid: int
    number: int

    @classmethod
    def of(cls, last: Last) -> Self:
        token = PositionToken.parse(last.token)
        return cls(token.branch, token.transaction, last.request)


class _Commits:
    """The transactions of one tick by their place in the order of commits, with the number of entries of each."""

    def __init__(self, sizes: Iterable[tuple[int, int]] = ()) -> None:
        ordered = sorted(sizes, reverse=True)
        self._places = [-place for place, _ in ordered]
        self._sizes = list(accumulate((size for _, size in ordered), initial=0))

    def after(self, order: int) -> int:
        """Return the number of entries whose transactions committed after *order*."""
        return self._sizes[bisect_left(self._places, -order)]


def request_places(connection: Connection, asked: Sequence[tuple[ProducerKey, Last]]) -> list[Place]:
    """Return the place of each stored request of *asked*, in order. The call is the transaction's first use."""
    kept = _kept(connection, [key for key, _ in asked])
    branch = exchange(connection, [(_BRANCH, {})])[0].rows[0][0]
    requests = [_Request.of(last) if key in kept and has_kept(kept[key], last) else None for key, last in asked]
    found = _on_branch(connection, branch, {each for each in requests if each and each.branch == branch})
    # The server that began a later branch has made all of an earlier one durable.
    return [_LOST if each is None else found.get(each, _DURABLE) for each in requests]


def _kept(connection: Connection, keys: Iterable[ProducerKey]) -> dict[ProducerKey, Last]:
    clients, producers = zip(*dict.fromkeys(keys), strict=True)
    named = {"clients": Array("text", clients), "producers": Array("text", producers)}
    _, answer = exchange(connection, [(_PLAN, {}), (_LASTS, named)])
    return {ProducerKey(ClientName(row[0]), row[1]): Last(*row[2:]) for row in answer.rows}


def _on_branch(connection: Connection, branch: str, requests: Collection[_Request]) -> dict[_Request, Place]:
    """Return the places of requests of the current *branch*; a missing one is durable, and trimmed."""
    if not requests:
        return {}
    xids = sorted({request.xid for request in requests})
    orders: dict[int, int] = dict(exchange(connection, [(_COMMITTED, {"xids": xids})])[0].rows)
    ticks = covering_ticks(connection, branch, orders)
    covered = [request for request in requests if request.xid in ticks]
    positions = _positions(connection, orders, ticks, covered)
    places = {request: _WAITS for request in requests if request.xid in orders}
    return places | {request: Place(is_durable=True, position=positions.get(request)) for request in covered}


def _positions(
    connection: Connection, orders: Mapping[int, int], ticks: Mapping[int, Tick], requests: Sequence[_Request]
) -> dict[_Request, Position]:
    """Return the places of the last entries of *requests*, as far as these are not trimmed."""
    if not requests:
        return {}
    commits = _commits(connection, {tick.number: tick for tick in ticks.values()}.values())
    later = _later(connection, requests)
    # After the reads: a trim meanwhile leaves fewer entries to count.
    trimmed = exchange(connection, [(_TRIMMED, {})])[0].rows[0][0]
    positions: dict[_Request, Position] = {}
    for request in requests:
        tick = ticks[request.xid]
        if tick.number in commits and tick.start_seq >= trimmed:
            after = later.get((request.xid, request.number), 0) + commits[tick.number].after(orders[request.xid])
            positions[request] = Position(tick.branch, tick.end_seq - after)
    return positions


def _commits(connection: Connection, ticks: Iterable[Tick]) -> dict[int, _Commits]:
    """Return the transactions of each tick by its number, unless the tick before is trimmed."""
    # A large tick has one transaction, so no other one follows in it.
    found = {tick.number: _Commits() for tick in ticks if tick.is_large}
    others = {tick.number: Visibility.parse(tick.mark) for tick in ticks if not tick.is_large}
    if not others:
        return found
    rows = exchange(connection, [(_MARKS, {"numbers": [number - 1 for number in others]})])[0].rows
    before = {0: Visibility(window=NOTHING)} | {number: Visibility.parse(mark) for number, mark in rows}
    known = [number for number in others if number - 1 in before]
    counted = commits_within(connection, [(before[number - 1], others[number]) for number in known])
    return found | {number: _Commits(sizes) for number, sizes in zip(known, counted, strict=True)}


def _later(connection: Connection, requests: Sequence[_Request]) -> dict[tuple[int, int], int]:
    """Return the number of entries after each request in its transaction, by transaction and number."""
    _, xids, numbers = (sorted(set(values)) for values in zip(*requests, strict=True))
    rows = exchange(connection, [(_LATER, {"xids": xids, "requests": numbers})])[0].rows
    return {(xid, number): later for xid, number, later in rows}
