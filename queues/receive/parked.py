"""Parked transactions: refused by a listener, and set aside so that later entries can be applied."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, Select, and_, delete, func, insert, select, update

from queues.clock import now_us
from queues.database.tables import parked_entries as parked_rows
from queues.database.tables import receive_queues
from queues.database.transactions import reading, writing, writing_briefly
from queues.errors import UsageError
from queues.receive.log_blocks import ReceivedRow
from queues.words import cleaned

#: The kinds of parked transactions.
LOG: Final = "log"
SNAPSHOT: Final = "snapshot"

#: The `tries` of a transaction that is to be retried.
_REQUESTED: Final = 0


@dataclass(frozen=True, slots=True)
class ParkedTransaction:
    """One source transaction (in a snapshot: one row) that was set aside after `tries` refusals.

    `history` is the scope of `sequence`: the branch of a log entry, or the sync_id of a snapshot row.
    """

    id: int
    client: str
    source: str
    kind: str
    history: str
    sequence: int
    entries: int
    bytes: int
    error: str
    tries: int
    parked_us: int

    @property
    def retrying(self) -> bool:
        """Return whether the transaction waits for a retry by the subscriber."""
        return self.tries == _REQUESTED


def parked(engine: Engine, *, client: str | None = None, limit: int = 1000) -> list[ParkedTransaction]:
    """List parked transactions, of *client* or of all, oldest first."""
    with reading(engine) as connection:
        rows = connection.execute(_listing(client).limit(limit)).all()
    return [ParkedTransaction(*row) for row in rows]


def parked_one(engine: Engine, parked_id: int) -> ParkedTransaction:
    """Return one parked transaction; raises `UsageError` for an id that `parked` does not list."""
    with reading(engine) as connection:
        row = connection.execute(_listing(None).where(_whole(connection, parked_id))).first()
    if row is None:
        raise UsageError(_absent(parked_id))
    return ParkedTransaction(*row)


def parked_contents(
    engine: Engine, parked_id: int, *, limit: int = 100, payload_bytes: int = 2**30
) -> list[ReceivedRow]:
    """Return up to *limit* entries of a parked transaction, in order, each with the first *payload_bytes* bytes.

    Raises `UsageError` for an id that `parked` does not list.
    """
    beginning = func.substr(parked_rows.c.payload, 1, payload_bytes)
    columns = (beginning if name == "payload" else parked_rows.c[name] for name in ReceivedRow._fields)
    with reading(engine) as connection:
        chosen = select(*columns).where(_whole(connection, parked_id))
        rows = connection.execute(chosen.order_by(parked_rows.c.id).limit(limit)).all()
    # On SQLite, a part of an empty payload is NULL.
    return [found._replace(payload=bytes(found.payload or b"")) for found in (ReceivedRow(*row) for row in rows)]


def retry_parked(engine: Engine, parked_id: int) -> None:
    """Have the subscriber retry a parked transaction; success deletes it, another refusal parks it again.

    The retry comes before the entries of the queue; entries after the parked ones may be applied already. Raises
    `UsageError` for an id that `parked` does not list.
    """
    with writing(engine) as connection:
        connection.execute(update(parked_rows).where(_whole(connection, parked_id)).values(tries=_REQUESTED))


def discard_parked(engine: Engine, parked_id: int) -> None:
    """Delete a parked transaction for good; raises `UsageError` for an id that `parked` does not list."""
    with writing(engine) as connection:
        connection.execute(delete(parked_rows).where(_whole(connection, parked_id)))


def has_any(connection: Connection, queue_id: int) -> bool:
    """Return whether a queue has a parked transaction."""
    own = select(parked_rows.c.id).where(parked_rows.c.queue_id == queue_id)
    return connection.execute(own.limit(1)).first() is not None


def forget_parked(connection: Connection, older_than_us: int) -> int:
    """Delete the entries that were parked before that time; return their number."""
    return connection.execute(delete(parked_rows).where(parked_rows.c.parked_us < older_than_us)).rowcount


def forget_after(connection: Connection, queue_id: int, seq: int) -> None:
    """Delete parked log entries of a queue after *seq*: their source has lost them."""
    of_queue = (parked_rows.c.queue_id == queue_id, parked_rows.c.kind == LOG)
    connection.execute(delete(parked_rows).where(*of_queue, parked_rows.c.seq > seq))


def park(
    connection: Connection, queue_id: int, kind: str, history: str, rows: Sequence[ReceivedRow], error: str, tries: int
) -> None:
    """Store a refused transaction, in the caller's transaction that removes it from the queue."""
    common = {"queue_id": queue_id, "kind": kind, "branch": history, "error": cleaned(error), "tries": tries}
    moment = now_us()
    connection.execute(insert(parked_rows), [{**common, **row._asdict(), "parked_us": moment} for row in rows])


class Identity(NamedTuple):
    """The columns that all rows of one parked transaction have in common."""

    queue_id: int
    kind: str
    branch: str
    transaction_seq: int
    parked_us: int


@dataclass(frozen=True, slots=True)
class Retry:
    """A parked transaction that is to be retried, with its rows."""

    identity: Identity
    rows: Sequence[ReceivedRow]


def requested(connection: Connection, parked_id: int) -> Retry:
    """Read the parked transaction of row *parked_id*; without rows if it has been deleted."""
    identity = _identity(connection, parked_id)
    if identity is None:
        return Retry(Identity(0, "", "", 0, 0), ())
    columns = (parked_rows.c[name] for name in ReceivedRow._fields)
    rows = connection.execute(select(*columns).where(_rows_of(identity)).order_by(parked_rows.c.id))
    return Retry(identity, [ReceivedRow(*row) for row in rows])


def keep(connection: Connection, retry: Retry) -> bool:
    """Lock the rows of *retry* until the transaction ends; False if they were deleted or are not to be retried.

    On SQLite, the caller's transaction must have written before.
    """
    found = connection.execute(select(parked_rows.c.id).where(*_wanted(retry)).with_for_update()).all()
    return len(found) == len(retry.rows) > 0


def take(connection: Connection, retry: Retry) -> bool:
    """Delete the rows of *retry* in the caller's transaction; False if they were deleted or are not to be retried."""
    return connection.execute(delete(parked_rows).where(*_wanted(retry))).rowcount == len(retry.rows) > 0


def _wanted(retry: Retry) -> tuple[ColumnElement[bool], ...]:
    return _rows_of(retry.identity), parked_rows.c.tries == _REQUESTED


def refuse(engine: Engine, retry: Retry, error: str) -> None:
    """Park the transaction again after another refusal."""
    with writing_briefly(engine) as connection:
        connection.execute(update(parked_rows).where(_rows_of(retry.identity)).values(tries=1, error=cleaned(error)))


def _listing(client: str | None) -> Select[tuple[Any, ...]]:
    group = [parked_rows.c[name] for name in Identity._fields]
    listing = (
        select(
            func.min(parked_rows.c.id).label("id"),
            receive_queues.c.client,
            receive_queues.c.source,
            parked_rows.c.kind,
            parked_rows.c.branch,
            parked_rows.c.transaction_seq,
            func.count(),
            func.sum(func.length(parked_rows.c.payload)),
            func.min(parked_rows.c.error),
            func.min(parked_rows.c.tries),
            parked_rows.c.parked_us,
        )
        .join_from(parked_rows, receive_queues, receive_queues.c.queue_id == parked_rows.c.queue_id)
        .group_by(*group, receive_queues.c.client, receive_queues.c.source)
        .order_by("id")
    )
    return listing if client is None else listing.where(receive_queues.c.client == client)


def _whole(connection: Connection, parked_id: int) -> ColumnElement[bool]:
    identity = _identity(connection, parked_id)
    if identity is None:
        raise UsageError(_absent(parked_id))
    return _rows_of(identity)


def _absent(parked_id: int) -> str:
    return f"there is no parked transaction {parked_id}: `lrq park list` shows those that there are"


def _identity(connection: Connection, parked_id: int) -> Identity | None:
    columns = (parked_rows.c[name] for name in Identity._fields)
    row = connection.execute(select(*columns).where(parked_rows.c.id == parked_id)).first()
    return None if row is None else Identity(*row)


def _rows_of(identity: Identity) -> ColumnElement[bool]:
    return and_(*(parked_rows.c[name] == value for name, value in identity._asdict().items()))
