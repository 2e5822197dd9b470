"""Store several requests of producers in one transaction of PostgreSQL, with two messages.

The first message locks the rows of the producers, so that no other server moves them. The second one writes entries
and rows, and commits. The entries carry the number of their request, so each request stays a source transaction for its
receivers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection

from queues.database.left_out import failing_unless
from queues.database.postgresql.pipeline import ask_together
from queues.database.postgresql.prepared_statements import Array, Request
from queues.database.tables.log import log_entries
from queues.database.tables.producers import producers
from queues.entry_headers import text_size
from queues.names import ClientName
from queues.positions import PositionToken
from queues.send_log.destination_check import known_change
from queues.send_log.outbox import NewEntry
from queues.send_log.port import TickLimits
from queues.send_log.postgresql.outbox import SLOT
from queues.send_log.producers import Last, ProducerKey, Production, StoreOutcome
from queues.send_log.request_group import AcceptedRequest, RequestGroup

# The row of a new producer is locked too. Otherwise two servers could store the first request of a producer.
_ADD: Final = """
    INSERT INTO lrq_producers (client, producer, sequence, token, updated_us)
    SELECT n.client, n.producer, 0, '', %(now)s::bigint
    FROM unnest(%(clients)s::text[], %(producers)s::text[]) AS n (client, producer) ON CONFLICT DO NOTHING
"""
_LOCK: Final = """
    SELECT p.client, p.producer, p.sequence, p.token, p.process, p.first_sequence, p.request
    FROM unnest(%(clients)s::text[], %(producers)s::text[]) AS n (client, producer)
    JOIN lrq_producers p USING (client, producer) ORDER BY p.client, p.producer FOR NO KEY UPDATE OF p
"""
# The transaction gets its id before the number of the last change of links is read. So an end of a link that this
# number lacks waits for the transaction.
_SITE: Final = """
    SELECT pg_current_xact_id()::text::bigint, s.site_id, s.branch,
      CASE WHEN coalesce(b.timeline, '') IN ('', '0', now.timeline) THEN '' ELSE now.timeline END,
      (SELECT last_value FROM lrq_link_change)
    FROM lrq_site s
      LEFT JOIN LATERAL (
        SELECT split_part(incarnation, '/', 2) AS timeline FROM lrq_branches WHERE branch = s.branch) b ON true,
      LATERAL (SELECT lower(left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)) AS timeline) now
"""
_WRITE: Final = f"""
    WITH written AS (INSERT INTO lrq_log_entries
      (slot, client, tag_set, destinations, item_key, partition_key, created_us, payload, headers, request)
    SELECT {SLOT}, n.client, n.tag_set,
      CASE WHEN n.tag_set = ANY(ARRAY(
        SELECT number FROM lrq_tag_sets WHERE shared AND number = ANY(%(used)s::bigint[])))
      THEN NULL ELSE n.destinations END,
      n.item_key, n.partition_key, %(now)s::bigint, n.payload, n.headers, nullif(n.request, 0)
    FROM unnest(%(clients)s::text[], %(sets)s::bigint[], %(destinations)s::text[], %(item_keys)s::text[],
      %(partition_keys)s::text[], %(payloads)s::bytea[], %(headers)s::text[], %(requests)s::integer[])
      AS n (client, tag_set, destinations, item_key, partition_key, payload, headers, request) RETURNING 1)
    SELECT {failing_unless("count(*) = cardinality(%(payloads)s::bytea[])", log_entries.name)} FROM written
"""  # noqa: S608 - constants
# Without its number a repeated request would be stored twice.
_MOVE: Final = f"""
    WITH moved AS (UPDATE lrq_producers p SET sequence = n.sequence, token = n.token, updated_us = %(now)s::bigint,
      process = n.process, first_sequence = n.first, request = n.request
    FROM unnest(%(clients)s::text[], %(producers)s::text[], %(sequences)s::bigint[], %(tokens)s::text[],
      %(processes)s::bigint[], %(firsts)s::bigint[], %(requests)s::integer[])
      AS n (client, producer, sequence, token, process, first, request)
    WHERE p.client = n.client AND p.producer = n.producer RETURNING 1)
    SELECT {failing_unless("count(*) = cardinality(%(producers)s::text[])", producers.name)} FROM moved
"""  # noqa: S608 - constants
_BEGIN: Final[Request] = ("BEGIN", {})
_COMMIT: Final[Request] = ("COMMIT", {})
_ROLLBACK: Final[Request] = ("ROLLBACK", {})


def divided(requests: Sequence[Production], limits: TickLimits) -> Iterator[Sequence[Production]]:
    """Yield groups of *requests* in order, each within *limits* but at least one request. Pure.

    A transaction above the limits of a tick would be a single source transaction for its receivers.
    """
    begin = rows = size = 0
    for place, request in enumerate(requests):
        more = sum(map(_size, request.entries))
        if place > begin and (rows + len(request.entries) > limits.rows or size + more > limits.payload_bytes):
            yield requests[begin:place]
            begin, rows, size = place, 0, 0
        rows += len(request.entries)
        size += more
    if begin < len(requests):
        yield requests[begin:]


def store_together(
    connection: Connection, requests: Sequence[Production], doubts: Sequence[str], created_us: int
) -> list[StoreOutcome] | None:
    """Store *requests* in one transaction, and return the outcome of each; *doubts* are the reasons against them.

    Return None, with nothing stored, if links have changed since the doubts were found. The *connection* is in
    autocommit, without other users; after an error it must be closed.
    """
    keys = sorted({request.key for request in requests})
    first = {
        request.key for request, doubt in zip(requests, doubts, strict=True) if request.sequence == 1 and not doubt
    }
    asked: list[Request] = [_BEGIN]
    if first:
        asked.append((_ADD, _named(sorted(first)) | {"now": created_us}))
    *_, locked, site = ask_together(connection, [*asked, (_LOCK, _named(keys)), (_SITE, {})])
    xid, name, branch, timeline, link_change = site.rows[0]
    if link_change != known_change(connection):
        ask_together(connection, [_ROLLBACK])
        return None
    lasts = {ProducerKey(ClientName(row[0]), row[1]): Last(*row[2:]) for row in locked.rows}
    stored = _Stored(_tokens(name, branch, xid, timeline))
    group = RequestGroup(lasts, stored.accept)
    outcomes = [group.decide(request, doubt) for request, doubt in zip(requests, doubts, strict=True)]
    if not group.moved:
        ask_together(connection, [_ROLLBACK])
        return outcomes
    now = {"now": created_us}
    ask_together(connection, [(_WRITE, stored.values() | now), (_MOVE, _moved(group.moved) | now), _COMMIT])
    return outcomes


class _Stored:
    """The requests that the transaction stores, numbered in their order."""

    def __init__(self, token: Callable[[ClientName], str]) -> None:
        self._token = token
        self.requests: list[Production] = []

    def accept(self, request: Production) -> AcceptedRequest:
        """Add a request."""
        self.requests.append(request)
        return AcceptedRequest(self._token(request.key.client), len(self.requests) - 1)

    def values(self) -> dict[str, object]:
        """Return the columns of all entries."""
        entries = [entry for request in self.requests for entry in request.entries]
        payloads, sets, item_keys, partition_keys, headers = zip(*entries, strict=True)
        numbers, texts = zip(*sets, strict=True)
        clients = [request.key.client for request in self.requests for _ in request.entries]
        places = [place for place, request in enumerate(self.requests) for _ in request.entries]
        return {
            "used": sorted(set(numbers)),
            "clients": Array("text", clients),
            "sets": Array("bigint", numbers),
            "destinations": Array("text", texts),
            "item_keys": Array("text", item_keys),
            "partition_keys": Array("text", partition_keys),
            "payloads": Array("bytea", payloads),
            "headers": Array("text", headers),
            "requests": Array("integer", places),
        }


def _tokens(site: str, branch: str, xid: int, timeline: str) -> Callable[[ClientName], str]:
    """Return the token of the transaction by client."""
    known: dict[ClientName, str] = {}

    def token(client: ClientName) -> str:
        if client not in known:
            known[client] = str(PositionToken(site, client, branch, xid, timeline))
        return known[client]

    return token


def _named(keys: Sequence[ProducerKey]) -> dict[str, Any]:
    clients, producers = zip(*keys, strict=True)
    return {"clients": Array("text", clients), "producers": Array("text", producers)}


def _moved(moved: Mapping[ProducerKey, Last]) -> dict[str, Any]:
    """Return the values of `_MOVE`."""
    sequences, tokens, processes, firsts, requests = zip(*moved.values(), strict=True)
    return {
        **_named(list(moved)),
        "sequences": Array("bigint", sequences),
        "tokens": Array("text", tokens),
        "processes": Array("bigint", processes),
        "firsts": Array("bigint", firsts),
        "requests": Array("integer", requests),
    }


def _size(entry: NewEntry) -> int:
    """Return the bytes of an entry that count for the limits of a tick."""
    size = len(entry.payload)
    for carried in (entry.headers, entry.partition_key):
        if carried is not None:
            size += text_size(carried)
    return size
