"""Parked transactions: what a listener would not apply, set aside so that the rest can get on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, Select, and_, delete, func, insert, select, update

from queues.clock import now_us
from queues.errors import UsageError
from queues.receive.upcoming import EntryRow
from queues.tables import parked_entries as parked_rows
from queues.tables import receive_queues
from queues.transactions import reading, writing, writing_briefly

#: Kinds of parked transactions.
LOG: Final = "log"
SNAPSHOT: Final = "snapshot"

#: How many `tries` a transaction has that is to be tried again.
_REQUESTED: Final = 0


@dataclass(frozen=True, slots=True)
class ParkedTransaction:
    """One source transaction (of a snapshot: one row) that was set aside after `tries` refusals.

    `history` is what `sequence` counts in: the branch of a log entry, the sync_id of a snapshot row.
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
        """Tell whether it waits for the subscriber to try it again."""
        return self.tries == _REQUESTED


def parked(engine: Engine, *, client: str | None = None, limit: int = 1000) -> list[ParkedTransaction]:
    """List parked transactions, of *client* or of all, oldest first."""
    with reading(engine) as connection:
        rows = connection.execute(_listing(client).limit(limit)).all()
    return [ParkedTransaction(*row) for row in rows]


def retry_parked(engine: Engine, parked_id: int) -> None:
    """Have the subscriber try a parked transaction once more; applied, it is gone, refused, it is parked again.

    It is tried ahead of the queue, so what came after it may have been applied already.
    Raises `UsageError` for an id that `parked` does not list.
    """
    with writing(engine) as connection:
        connection.execute(update(parked_rows).where(_whole(connection, parked_id)).values(tries=_REQUESTED))


def discard_parked(engine: Engine, parked_id: int) -> None:
    """Delete a parked transaction for good; raises `UsageError` for an id that `parked` does not list."""
    with writing(engine) as connection:
        connection.execute(delete(parked_rows).where(_whole(connection, parked_id)))


def forget_parked(connection: Connection, older_than_us: int) -> int:
    """Delete what was parked before that time; return how many entries that were."""
    return connection.execute(delete(parked_rows).where(parked_rows.c.parked_us < older_than_us)).rowcount


def forget_after(connection: Connection, queue_id: int, seq: int) -> None:
    """Delete log entries of a queue that were parked and came after *seq*: their source has lost them."""
    of_queue = (parked_rows.c.queue_id == queue_id, parked_rows.c.kind == LOG)
    connection.execute(delete(parked_rows).where(*of_queue, parked_rows.c.seq > seq))


def park(
    connection: Connection, queue_id: int, kind: str, history: str, rows: Sequence[EntryRow], error: str, tries: int
) -> None:
    """Set one transaction aside, in the caller's transaction that takes it off the queue."""
    common = {"queue_id": queue_id, "kind": kind, "branch": history, "error": error, "tries": tries}
    moment = now_us()
    connection.execute(insert(parked_rows), [{**common, **row._asdict(), "parked_us": moment} for row in rows])


class Identity(NamedTuple):
    """What all rows of one parked transaction share."""

    queue_id: int
    kind: str
    branch: str
    transaction_seq: int
    parked_us: int


@dataclass(frozen=True, slots=True)
class Retry:
    """A parked transaction that someone wants tried again, with its rows."""

    identity: Identity
    rows: Sequence[EntryRow]


def requested(connection: Connection, parked_id: int) -> Retry:
    """Read the parked transaction that has the row *parked_id*; without rows when it is gone."""
    identity = _identity(connection, parked_id)
    if identity is None:
        return Retry(Identity(0, "", "", 0, 0), ())
    columns = (parked_rows.c[name] for name in EntryRow._fields)
    rows = connection.execute(select(*columns).where(_rows_of(identity)).order_by(parked_rows.c.id))
    return Retry(identity, [EntryRow(*row) for row in rows])


def take(connection: Connection, retry: Retry) -> bool:
    """Delete it in the caller's transaction; False when someone else has, or no longer wants it tried."""
    wanted = delete(parked_rows).where(_rows_of(retry.identity), parked_rows.c.tries == _REQUESTED)
    return connection.execute(wanted).rowcount == len(retry.rows) > 0


def refuse(engine: Engine, retry: Retry, error: str) -> None:
    """Park it again after one more refusal."""
    with writing_briefly(engine) as connection:
        connection.execute(update(parked_rows).where(_rows_of(retry.identity)).values(tries=1, error=error))


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
        raise UsageError(f"there is no parked transaction {parked_id}: `lrq park list` shows those that there are")
    return _rows_of(identity)


def _identity(connection: Connection, parked_id: int) -> Identity | None:
    columns = (parked_rows.c[name] for name in Identity._fields)
    row = connection.execute(select(*columns).where(parked_rows.c.id == parked_id)).first()
    return None if row is None else Identity(*row)


def _rows_of(identity: Identity) -> ColumnElement[bool]:
    return and_(*(parked_rows.c[name] == value for name, value in identity._asdict().items()))
