"""Store the requests of producers on PostgreSQL. No commit waits for the disk: the next tick makes it durable.

Requests that wait at the same time share a transaction of the database (`shared_requests`). A single request has one of
its own, which one message carries. After an error, each request of the group is tried alone.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, Engine, exc

from queues.database.left_out import failing_unless, is_told_by, left_out
from queues.database.postgresql.answers import Answer
from queues.database.postgresql.autocommit import Direct
from queues.database.postgresql.pipeline import commit_each
from queues.database.postgresql.prepared_statements import Array, Request
from queues.database.tables.log import log_entries
from queues.database.tables.producers import producers
from queues.database.transactions import reading
from queues.errors import LrqError, first_line
from queues.send_log.destination_check import LINK_ENDED, known_change, refused_each
from queues.send_log.port import TickLimits
from queues.send_log.postgresql.outbox import SLOT
from queues.send_log.postgresql.request_places import request_places
from queues.send_log.postgresql.shared_requests import divided, store_together
from queues.send_log.postgresql.windows import plan
from queues.send_log.producers import (
    NO_REQUEST,
    Last,
    Place,
    ProducerKey,
    Production,
    RequestVerdict,
    StoreOutcome,
    decide,
)
from queues.words import describe, in_words

_SETTINGS: Final = plan("enable_hashjoin", lasting=True) + (
    ", set_config('synchronous_commit', 'off', false)"
    ", set_config('default_transaction_isolation', 'read committed', false)"
)
# As `lrq_transmit` and the sender write it.
_TOKEN: Final = """
    SELECT s.site_id || '/' || %(client)s::text || '/' || s.branch || '/' || pg_current_xact_id()::text
      || CASE WHEN coalesce(b.timeline, '') IN ('', '0', now.timeline) THEN '' ELSE '/' || now.timeline END
    FROM lrq_site s
      LEFT JOIN LATERAL (
        SELECT split_part(incarnation, '/', 2) AS timeline FROM lrq_branches WHERE branch = s.branch) b ON true,
      LATERAL (SELECT lower(left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)) AS timeline) now
"""
_FIRST: Final = f"""
    INSERT INTO lrq_producers (client, producer, sequence, token, updated_us, process, first_sequence)
    VALUES (%(client)s::text, %(producer)s::text, %(sequence)s::bigint, ({_TOKEN}), %(now)s::bigint,
      %(process)s::bigint, %(sequence)s::bigint)
    ON CONFLICT (client, producer) DO NOTHING RETURNING token, process, first_sequence, request
"""  # noqa: S608 - constants
_NEXT: Final = f"""
    UPDATE lrq_producers SET sequence = %(sequence)s::bigint, token = ({_TOKEN}), updated_us = %(now)s::bigint,
      process = %(process)s::bigint,
      first_sequence = CASE WHEN process = %(process)s::bigint THEN first_sequence ELSE %(sequence)s::bigint END,
      request = 0
    WHERE client = %(client)s::text AND producer = %(producer)s::text AND sequence = %(sequence)s::bigint - 1
      AND (process = %(process)s::bigint OR %(may_follow)s::boolean)
    RETURNING token, process, first_sequence, request
"""  # noqa: S608 - constants
_LAST: Final = """
    SELECT false, sequence, token, process, first_sequence, request FROM lrq_producers
    WHERE client = %(client)s::text AND producer = %(producer)s::text
"""
_ENTRIES: Final = log_entries.name
_ALL_WRITTEN: Final = failing_unless("(SELECT count(*) FROM written) = cardinality(%(payloads)s::bytea[])", _ENTRIES)
# The entries are written only if the producer's row has moved. The links are checked once the transaction has its
# id. A refusal undoes the transaction, and a later end of a link waits for it.
_WRITE: Final = f"""
    WITH moved AS ({{move}}),
    written AS (
      INSERT INTO lrq_log_entries
        (slot, client, tag_set, destinations, item_key, partition_key, created_us, payload, headers)
      SELECT {SLOT}, %(client)s::text, n.tag_set,
        CASE WHEN n.tag_set = ANY(ARRAY(
          SELECT number FROM lrq_tag_sets WHERE shared AND number = ANY(%(sets)s::bigint[])))
        THEN NULL ELSE n.destinations END,
        n.item_key, n.partition_key, %(now)s::bigint, n.payload, n.headers
      FROM unnest(%(sets)s::bigint[], %(destinations)s::text[], %(item_keys)s::text[], %(partition_keys)s::text[],
        %(payloads)s::bytea[], %(headers)s::text[])
        AS n (tag_set, destinations, item_key, partition_key, payload, headers)
      WHERE EXISTS (SELECT 1 FROM moved) RETURNING 1)
    SELECT {_ALL_WRITTEN} = 1
      AND CASE WHEN (SELECT last_value FROM lrq_link_change) = %(link_change)s::bigint THEN true
        ELSE lrq_check_links(%(client)s::text,
          string_to_array(array_to_string(%(destinations)s::text[], ','), ',')) IS NOT NULL END,
      %(sequence)s::bigint, token, process, first_sequence, request FROM moved
    UNION ALL {_LAST} AND NOT EXISTS (SELECT 1 FROM moved)
"""  # noqa: S608 - constants
_REFUSES: Final = "the database refuses the request: "
#: A request that others overtake is tried so often.
_ATTEMPTS: Final = 3
_WRITE_FIRST: Final = _WRITE.format(move=_FIRST)
_WRITE_NEXT: Final = _WRITE.format(move=_NEXT)


class PostgresqlStore:
    """See `queues.send_log.producers.Store`."""

    is_durable_at_once: Final = False

    def __init__(self, engine: Engine, limits: TickLimits) -> None:
        """Let no transaction with several requests be above *limits*, those of one tick."""
        self._engine = engine
        self._limits = limits
        self._direct = Direct(engine, _SETTINGS)

    def store(self, requests: Sequence[Production], created_us: int) -> list[StoreOutcome]:
        """See the port."""
        with self._direct.connected():
            pass
        groups = divided(requests, self._limits)
        return [outcome for group in groups for outcome in self._store_group(group, created_us)]

    def _store_group(self, requests: Sequence[Production], created_us: int) -> list[StoreOutcome]:
        """Store *requests* together; after an error try each alone, so that one cannot fail the others for ever.

        A commit without an answer may have happened. Then the second try counts its requests as repeated.
        """
        try:
            if len(requests) > 1 and (outcomes := self._store_together(requests, created_us)) is not None:
                return outcomes
            return self._store(requests, created_us)
        except (LrqError, exc.DBAPIError) as error:
            if len(requests) == 1:
                return [_failed(error)]
        return self._store_each(requests, created_us)

    def _store_each(self, requests: Sequence[Production], created_us: int) -> list[StoreOutcome]:
        outcomes: list[StoreOutcome] = []
        for request in requests:
            # A lost connection fails all that follow at once.
            if outcomes and outcomes[-1].verdict is RequestVerdict.UNKNOWN:
                outcomes.append(outcomes[-1])
                continue
            try:
                outcomes += self._store([request], created_us)
            except (LrqError, exc.DBAPIError) as error:
                outcomes.append(_failed(error))
        return outcomes

    def places(self, asked: Sequence[tuple[ProducerKey, Last]]) -> list[Place]:
        """See the port."""
        with reading(self._engine) as connection:
            return request_places(connection, asked)

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        self._direct.close()

    def _store_together(self, requests: Sequence[Production], created_us: int) -> list[StoreOutcome] | None:
        with self._direct.connected() as connection:
            doubts = refused_each(connection, ((request.key.client, request.entries) for request in requests))
            return store_together(connection, requests, doubts, created_us)

    def _store(self, requests: Sequence[Production], created_us: int) -> list[StoreOutcome]:
        with self._direct.connected() as connection:
            doubts = refused_each(connection, ((request.key.client, request.entries) for request in requests))
            sent = [
                _asking(request) if doubt or not request.sequence else _writing(connection, request, created_us)
                for request, doubt in zip(requests, doubts, strict=True)
            ]
            answers = commit_each(connection, sent)
            return [
                _outcome(request, doubt, answer) or _overtaken(connection, request, created_us)
                for request, doubt, answer in zip(requests, doubts, answers, strict=True)
            ]


def _outcome(request: Production, doubt: str, answer: Answer) -> StoreOutcome | None:
    """Return the outcome of a request; None if the request is the next one now, but was not when it was tried."""
    is_stored, *standing = answer.rows[0] if answer.rows else (False, *NO_REQUEST)
    last = Last(*standing)
    verdict = RequestVerdict.STORED if is_stored else decide(last, request)
    if is_stored or verdict is not RequestVerdict.STORED:
        return StoreOutcome(verdict, last)
    return StoreOutcome(RequestVerdict.REFUSED, reason=doubt) if doubt else None


def _overtaken(connection: Connection, request: Production, created_us: int) -> StoreOutcome:
    """Try a request again: another server has stored the request before this one meanwhile.

    If two tries find the same row, no other server has moved it. Then a trigger of others leaves out the change.
    """
    before: Sequence[object] | None = None
    for _ in range(_ATTEMPTS):
        (answer,) = commit_each(connection, [_writing(connection, request, created_us)])
        outcome = _outcome(request, "", answer)
        if outcome is not None:
            return outcome
        if before == answer.rows:
            return StoreOutcome(RequestVerdict.REFUSED, reason=_REFUSES + left_out(producers.name))
        before = answer.rows
    return StoreOutcome(RequestVerdict.UNKNOWN, reason="other servers store requests of the same producer: try again")


def _failed(error: LrqError | exc.DBAPIError) -> StoreOutcome:
    """Return the outcome after *error*: an error of the statement has ended the transaction, others may not have."""
    if isinstance(error.__cause__, UnicodeEncodeError):
        return StoreOutcome(RequestVerdict.REFUSED, reason=in_words(error))
    if isinstance(error, LrqError):
        return StoreOutcome(RequestVerdict.UNKNOWN, reason=in_words(error))
    if getattr(error.orig, "sqlstate", None) == LINK_ENDED:
        return StoreOutcome(RequestVerdict.REFUSED, reason=first_line(error.orig))
    words = left_out(_ENTRIES) if is_told_by(error, _ENTRIES) else describe(error)
    return StoreOutcome(RequestVerdict.REFUSED, reason=_REFUSES + words)


def _asking(request: Production) -> Request:
    return _LAST, request.key._asdict()


def _writing(connection: Connection, request: Production, created_us: int) -> Request:
    entries = request.entries
    return (
        _WRITE_FIRST if request.sequence == 1 else _WRITE_NEXT,
        {
            **request.key._asdict(),
            "sequence": request.sequence,
            "process": request.process,
            "may_follow": request.may_follow,
            "now": created_us,
            "sets": Array("bigint", [entry.destinations.number for entry in entries]),
            "destinations": Array("text", [entry.destinations.text for entry in entries]),
            "item_keys": Array("text", [entry.item_key for entry in entries]),
            "partition_keys": Array("text", [entry.partition_key for entry in entries]),
            "payloads": Array("bytea", [entry.payload for entry in entries]),
            "headers": Array("text", [entry.headers for entry in entries]),
            "link_change": known_change(connection),
        },
    )
