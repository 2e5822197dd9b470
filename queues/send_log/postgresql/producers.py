"""Store the requests of producers on PostgreSQL: many transactions in one message.

Requests of one producer that wait together share a transaction, because a transaction costs as much as ten entries.
Requests of different producers never do: a listener may refuse or park a transaction as a whole. No commit waits for
the disk. The next tick does, and makes all that it covers durable.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, Engine, exc, text

from queues.database.postgresql.autocommit import Direct
from queues.database.postgresql.pipeline import Answer, Request, commit_each
from queues.database.transactions import reading
from queues.errors import LrqError, TrimmedError
from queues.positions import Position, PositionToken, Visibility
from queues.send_log.destination_check import refused_destinations
from queues.send_log.history import current_branch, tick_covering
from queues.send_log.postgresql.producer_runs import StoreTry, runs_of
from queues.send_log.postgresql.producer_statements import asking, writing_of
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
_COMMITTED: Final = text("SELECT commit_seq FROM lrq_log_commits WHERE xid = :xid")
#: A request that others overtake is tried so often.
_ATTEMPTS: Final = 3


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
            tries = [StoreTry(request, refused_destinations(connection, request.entries)) for request in requests]
            runs = runs_of(tries)
            answers = commit_each(connection, [_sent(run, created_us) for run in runs])
            outcomes: dict[StoreTry, StoreOutcome] = {}
            again: list[StoreTry] = []
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


def _sent(run: Sequence[StoreTry], created_us: int) -> Request:
    first = run[0]
    if first.doubt or not first.request.sequence:
        return asking(first.request)
    return writing_of([each.request for each in run], created_us)


def _outcomes(
    connection: Connection, run: Sequence[StoreTry], answer: Answer, created_us: int
) -> dict[StoreTry, StoreOutcome]:
    """Return the outcome of each request; only a run of one may be unstored."""
    if len(run) == 1:
        (only,) = run
        return {only: _outcome(only.request, only.doubt, answer) or _overtaken(connection, only.request, created_us)}
    standing = answer.rows[0][2:]
    outcomes: dict[StoreTry, StoreOutcome] = {}
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
        (answer,) = commit_each(connection, [writing_of([request], created_us)])
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
