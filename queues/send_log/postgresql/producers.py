"""Store the requests of producers on PostgreSQL: many transactions in one message.

Requests of one producer that wait together share a transaction, because a transaction costs as much as ten entries.
Requests of different producers never do: a listener may refuse or park a transaction as a whole. No commit waits for
the disk. The next tick does, and makes all that it covers durable.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, Engine, exc, text

from queues.database.postgresql.autocommit import Direct
from queues.database.postgresql.pipeline import Answer, Array, Request, commit_each
from queues.database.transactions import reading
from queues.errors import LrqError, TrimmedError
from queues.positions import Position, PositionToken, Visibility
from queues.send_log.destination_check import refused_destinations
from queues.send_log.history import current_branch, tick_covering
from queues.send_log.postgresql.outbox import SLOT
from queues.send_log.postgresql.reads import count_after
from queues.send_log.postgresql.windows import NOTHING
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
from queues.send_log.reads import mark_before
from queues.words import describe, in_words

_SETTINGS: Final = (
    "SELECT set_config('synchronous_commit', 'off', false),"
    " set_config('default_transaction_isolation', 'read committed', false), set_config('jit', 'off', false)"
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
      %(process)s::bigint, %(first)s::bigint)
    ON CONFLICT (client, producer) DO NOTHING RETURNING token, process, first_sequence
"""  # noqa: S608 - constants
_NEXT: Final = f"""
    UPDATE lrq_producers SET sequence = %(sequence)s::bigint, token = ({_TOKEN}), updated_us = %(now)s::bigint,
      process = %(process)s::bigint,
      first_sequence = CASE WHEN process = %(process)s::bigint THEN first_sequence ELSE %(first)s::bigint END
    WHERE client = %(client)s::text AND producer = %(producer)s::text AND sequence = %(first)s::bigint - 1
      AND (process = %(process)s::bigint OR %(may_follow)s::boolean)
    RETURNING token, process, first_sequence
"""  # noqa: S608 - constants
_LAST: Final = """
    SELECT false, sequence, token, process, first_sequence FROM lrq_producers
    WHERE client = %(client)s::text AND producer = %(producer)s::text
"""
# The entries are written only if the producer's row has moved.
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
      WHERE EXISTS (SELECT 1 FROM moved))
    SELECT true, %(sequence)s::bigint, token, process, first_sequence FROM moved
    UNION ALL {_LAST} AND NOT EXISTS (SELECT 1 FROM moved)
"""  # noqa: S608 - constants
_COMMITTED: Final = text("SELECT commit_seq FROM lrq_log_commits WHERE xid = :xid")
#: The most entries of requests that share a transaction, and the most bytes of their payloads.
SHARED_ENTRIES: Final = 128
SHARED_BYTES: Final = 256 * 1024
#: A request that others overtake is tried so often.
_ATTEMPTS: Final = 3
_WRITE_FIRST: Final = _WRITE.format(move=_FIRST)
_WRITE_NEXT: Final = _WRITE.format(move=_NEXT)


class PostgresqlStore:
    """See `queues.send_log.producers.Store`."""

    is_durable_at_once: Final = False

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._direct = Direct(engine, _SETTINGS)

    def store(self, requests: Sequence[Production], created_us: int) -> list[StoreOutcome]:
        """See the port. After an error each request is tried alone, so that one cannot fail the others for ever."""
        with self._direct.connected():
            pass
        try:
            return self._store(requests, created_us)
        except (LrqError, exc.DBAPIError) as error:
            if len(requests) == 1:
                return [_failed(error)]
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

    def place(self, token: str) -> Place:
        """See the port."""
        with reading(self._engine) as connection:
            return _place(connection, PositionToken.parse(token))

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        self._direct.close()

    def _store(self, requests: Sequence[Production], created_us: int) -> list[StoreOutcome]:
        with self._direct.connected() as connection:
            tries = [_Try(request, refused_destinations(connection, request.entries)) for request in requests]
            runs = _runs(tries)
            answers = commit_each(connection, [_sent(run, created_us) for run in runs])
            outcomes: dict[_Try, StoreOutcome] = {}
            again: list[_Try] = []
            broken: set[ProducerKey] = set()
            for run, answer in zip(runs, answers, strict=True):
                key = run[0].request.key
                if _is_stored(answer) or (len(run) == 1 and key not in broken):
                    outcomes |= _outcomes(connection, run, answer, created_us)
                else:
                    # The requests were not the next ones, so those behind them could not be decided either.
                    broken.add(key)
                    again += run
            if again:
                answers = commit_each(connection, [_sent([each], created_us) for each in again])
                for each, answer in zip(again, answers, strict=True):
                    outcomes |= _outcomes(connection, [each], answer, created_us)
            return [outcomes[each] for each in tries]


@dataclass(frozen=True, slots=True, eq=False)
class _Try:
    """A request, and why its destinations are refused; empty if they are not."""

    request: Production
    doubt: str


def _runs(tries: Iterable[_Try]) -> list[list[_Try]]:
    """Divide requests into those of one transaction each: successive numbers of one producer, within `SHARED`. Pure."""
    runs: list[list[_Try]] = []
    open_runs: dict[ProducerKey, list[_Try]] = {}
    rooms: dict[ProducerKey, tuple[int, int]] = {}
    for each in tries:
        request = each.request
        entries, size = len(request.entries), sum(len(entry.payload) for entry in request.entries)
        run = open_runs.get(request.key)
        taken = rooms.get(request.key, (0, 0))
        fits = taken[0] + entries <= SHARED_ENTRIES and taken[1] + size <= SHARED_BYTES
        if run is not None and fits and _follows(run[-1], each):
            run.append(each)
            rooms[request.key] = taken[0] + entries, taken[1] + size
        else:
            runs.append([each])
            open_runs[request.key], rooms[request.key] = runs[-1], (entries, size)
    return runs


def _follows(before: _Try, after: _Try) -> bool:
    numbers = before.request.sequence, after.request.sequence
    is_next = 0 < numbers[0] == numbers[1] - 1 and before.request.process == after.request.process
    return is_next and not (before.doubt or after.doubt)


def _sent(run: Sequence[_Try], created_us: int) -> Request:
    first = run[0]
    if first.doubt or not first.request.sequence:
        return _asking(first.request)
    return _writing([each.request for each in run], created_us)


def _outcomes(connection: Connection, run: Sequence[_Try], answer: Answer, created_us: int) -> dict[_Try, StoreOutcome]:
    """Return the outcome of each request; only a run of one may be unstored."""
    if len(run) == 1:
        (only,) = run
        return {only: _outcome(only.request, only.doubt, answer) or _overtaken(connection, only.request, created_us)}
    standing = answer.rows[0][2:]
    outcomes: dict[_Try, StoreOutcome] = {}
    after = 0
    for each in reversed(run):
        outcomes[each] = StoreOutcome(RequestVerdict.STORED, Last(each.request.sequence, *standing), after=after)
        after += len(each.request.entries)
    return outcomes


def _outcome(request: Production, doubt: str, answer: Answer) -> StoreOutcome | None:
    """Return the outcome of a request; None if the request is the next one now, but was not when it was tried."""
    is_stored = _is_stored(answer)
    standing = answer.rows[0][1:] if answer.rows else NO_REQUEST
    last = Last(*standing)
    verdict = RequestVerdict.STORED if is_stored else decide(last, request)
    if is_stored or verdict is not RequestVerdict.STORED:
        return StoreOutcome(verdict, last)
    return StoreOutcome(RequestVerdict.REFUSED, reason=doubt) if doubt else None


def _is_stored(answer: Answer) -> bool:
    return bool(answer.rows) and bool(answer.rows[0][0])


def _overtaken(connection: Connection, request: Production, created_us: int) -> StoreOutcome:
    """Try a request again: another server has stored the request before this one meanwhile."""
    for _ in range(_ATTEMPTS):
        (answer,) = commit_each(connection, [_writing([request], created_us)])
        outcome = _outcome(request, "", answer)
        if outcome is not None:
            return outcome
    return StoreOutcome(RequestVerdict.UNKNOWN, reason="other servers store requests of the same producer: try again")


def _place(connection: Connection, token: PositionToken) -> Place:
    if token.branch != current_branch(connection):
        # The server that began the later branch has made everything before it durable.
        return Place(is_durable=True)
    commit = connection.execute(_COMMITTED, {"xid": token.transaction}).first()
    if commit is None:
        # Trimmed, because the row of the producer shows the commit.
        return Place(is_durable=True)
    tick = tick_covering(connection, token.branch, token.transaction, commit.commit_seq)
    if tick is None:
        return Place(is_durable=False)
    if tick.is_large:
        return Place(is_durable=True, position=Position(tick.branch, tick.end_seq))
    try:
        before = mark_before(connection, tick) or Visibility(window=NOTHING)
    except TrimmedError:
        return Place(is_durable=True)
    after = count_after(connection, before, Visibility.parse(tick.mark), commit.commit_seq)
    return Place(is_durable=True, position=Position(tick.branch, tick.end_seq - after))


def _failed(error: LrqError | exc.DBAPIError) -> StoreOutcome:
    """Return the outcome after *error*: an error of the statement has ended the transaction, others may not have."""
    if isinstance(error, LrqError):
        return StoreOutcome(RequestVerdict.UNKNOWN, reason=in_words(error))
    return StoreOutcome(RequestVerdict.REFUSED, reason=f"the database refuses the request: {describe(error)}")


def _asking(request: Production) -> Request:
    return _LAST, request.key._asdict()


def _writing(requests: Sequence[Production], created_us: int) -> Request:
    """Return the statement that stores *requests*, whose numbers follow each other, if the first one is the next."""
    first, last = requests[0], requests[-1]
    entries = [entry for request in requests for entry in request.entries]
    return (
        _WRITE_FIRST if first.sequence == 1 else _WRITE_NEXT,
        {
            **first.key._asdict(),
            "first": first.sequence,
            "sequence": last.sequence,
            "process": first.process,
            "may_follow": first.may_follow,
            "now": created_us,
            "sets": Array("bigint", [entry.destinations.number for entry in entries]),
            "destinations": Array("text", [entry.destinations.text for entry in entries]),
            "item_keys": Array("text", [entry.item_key for entry in entries]),
            "partition_keys": Array("text", [entry.partition_key for entry in entries]),
            "payloads": Array("bytea", [entry.payload for entry in entries]),
            "headers": Array("text", [entry.headers for entry in entries]),
        },
    )
