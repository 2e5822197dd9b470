"""Store the requests of producers on SQLite: all that wait in one commit, because a commit waits for the disk."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from sqlalchemy import Connection, Engine, text

from queues.database.left_out import require_stored
from queues.database.tables.producers import producers
from queues.database.transactions import reading, writing
from queues.errors import StoreUnavailableError
from queues.names import ClientName
from queues.positions import Position, PositionToken, Visibility
from queues.send_log.branches import newest_branch
from queues.send_log.destination_check import forget_old_facts, refused_each
from queues.send_log.links import last_change
from queues.send_log.outbox import SourceTransaction
from queues.send_log.port import TickLimits
from queues.send_log.producers import Last, Place, ProducerKey, Production, RequestVerdict, StoreOutcome
from queues.send_log.reads import newest_tick
from queues.send_log.request_group import AcceptedRequest, RequestGroup
from queues.send_log.sqlite.outbox import write_all
from queues.words import in_words

_HEAD: Final = text("SELECT h.last_id, s.site_id, s.branch FROM lrq_log_head h, lrq_site s")
_LASTS: Final = (
    "SELECT client, producer, sequence, token, process, first_sequence FROM lrq_producers"
    " WHERE (client, producer) IN (VALUES {places})"
)
#: The most producers of one statement; SQLite takes at least 999 values.
_AT_ONCE: Final = 400
_MOVE: Final = text(
    "INSERT INTO lrq_producers (client, producer, sequence, token, updated_us, process, first_sequence)"
    " VALUES (:client, :producer, :sequence, :token, :updated_us, :process, :first)"
    " ON CONFLICT (client, producer)"
    " DO UPDATE SET sequence = excluded.sequence, token = excluded.token, updated_us = excluded.updated_us,"
    " process = excluded.process, first_sequence = excluded.first_sequence"
)


class SqliteStore:
    """See `queues.send_log.producers.Store`."""

    is_durable_at_once: Final = True

    def __init__(self, engine: Engine, limits: TickLimits) -> None:  # noqa: ARG002
        self._engine = engine

    def store(self, requests: Sequence[Production], created_us: int) -> list[StoreOutcome]:
        """See the port."""
        outcomes: list[StoreOutcome] = []
        try:
            with writing(self._engine) as connection:
                outcomes = _Group(connection).store(requests, created_us)
        except StoreUnavailableError as error:
            if not (outcomes and _may_be_found(error)):
                raise
            return [StoreOutcome(RequestVerdict.UNKNOWN, reason=in_words(error))] * len(outcomes)
        return outcomes

    def places(self, asked: Sequence[tuple[ProducerKey, Last]]) -> list[Place]:
        """See the port."""
        with reading(self._engine) as connection:
            group = _Group(connection)
            return [Place(is_durable=True, position=group.position(last.token)) for _, last in asked]

    def close(self) -> None:
        """Do nothing: the store holds no connection."""


def _may_be_found(error: StoreUnavailableError) -> bool:
    """Return whether a recovery of the file may find the transaction whose commit ended with *error*.

    The transaction may be written when its fsync fails. A full disk has refused a part of the transaction.
    """
    cause = getattr(error.__cause__, "orig", None)
    return str(getattr(cause, "sqlite_errorname", "")).startswith("SQLITE_IOERR")


class _Group:
    """Requests of one commit. The write lock is held, so no other transaction moves a row meanwhile."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._last_id, self._site, self._branch = connection.execute(_HEAD).one()
        self._offset = _offset(connection)
        self._accepted: list[SourceTransaction] = []

    def store(self, requests: Sequence[Production], created_us: int) -> list[StoreOutcome]:
        """Decide on each request, and write the accepted ones together."""
        forget_old_facts(self._connection, last_change(self._connection))
        group = RequestGroup(_lasts(self._connection, {request.key for request in requests}), self._accept)
        doubts = refused_each(self._connection, ((request.key.client, request.entries) for request in requests))
        outcomes = [self._placed(group.decide(request, doubt)) for request, doubt in zip(requests, doubts, strict=True)]
        if self._accepted:
            write_all(self._connection, self._accepted, created_us)
            rows = [{**key._asdict(), **last._asdict(), "updated_us": created_us} for key, last in group.moved.items()]
            # Without its number a repeated request would be stored twice.
            require_stored(producers.name, self._connection.execute(_MOVE, rows).rowcount, len(rows))
        return outcomes

    def _accept(self, request: Production) -> AcceptedRequest:
        client = request.key.client
        self._accepted.append(SourceTransaction(client, request.entries))
        self._last_id += len(request.entries)
        # The text of a `PositionToken`.
        token = f"{self._site}/{client}/{self._branch}/{self._last_id}"
        return AcceptedRequest(token, 0, Position(self._branch, self._last_id + self._offset))

    def _placed(self, outcome: StoreOutcome) -> StoreOutcome:
        """Return the outcome with the place of its last request."""
        if outcome.position is not None or not outcome.last.token:
            return outcome
        return outcome._replace(position=self.position(outcome.last.token))

    def position(self, token: str) -> Position | None:
        """Return the place of an entry of this branch: a commit is durable, and the next tick keeps the order."""
        named = PositionToken.parse(token)
        return Position(named.branch, named.transaction + self._offset) if named.branch == self._branch else None


def _lasts(connection: Connection, keys: Iterable[ProducerKey]) -> dict[ProducerKey, Last]:
    """Return the last stored requests of the producers that have one, with few statements."""
    found: dict[ProducerKey, Last] = {}
    ordered = sorted(keys)
    for start in range(0, len(ordered), _AT_ONCE):
        some = ordered[start : start + _AT_ONCE]
        places = ", ".join(["(?, ?)"] * len(some))
        rows = connection.exec_driver_sql(_LASTS.format(places=places), tuple(chain.from_iterable(some)))
        found |= {ProducerKey(ClientName(row[0]), row[1]): Last(*row[2:]) for row in rows}
    return found


def _offset(connection: Connection) -> int:
    """Return the difference between the number of an entry in the log and its id: ids have no gaps."""
    newest = newest_tick(connection)
    if newest is None:
        return newest_branch(connection).start_seq
    return newest.end_seq - Visibility.parse(newest.mark).high
