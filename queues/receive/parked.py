"""Parked transactions: refused by a listener, and set aside so that later entries can be applied."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, Select, and_, delete, exists, func, insert, select, update

from queues.clock import now_us
from queues.database import actions
from queues.database.tables.consumers import parked_entries as parked_rows
from queues.database.tables.receive import receive_queues
from queues.database.transactions import reading, writing, writing_briefly
from queues.error_facts import ErrorFacts
from queues.errors import UsageError
from queues.names import ClientName
from queues.receive.block_entries import ReceivedRow
from queues.receive.failures import Failure
from queues.words import cleaned

#: The kinds of parked transactions.
LOG: Final = "log"
SNAPSHOT: Final = "snapshot"

#: The `tries` of a transaction that is to be retried.
_REQUESTED: Final = 0
#: The most ids in one statement.
_CHUNK: Final = 500
# The largest number of a database.
_LARGEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ParkedTransaction:
    """One source transaction (in a snapshot: one row) that was set aside after `tries` refusals.

    `history` is the scope of `sequence`: the branch of a log entry, or the sync_id of a snapshot row. For `error`,
    `error_class` and `place` see `ErrorFacts`. `attempts` counts all refusals, between `first_us` and `last_us`; 0 is
    an unknown number or time.
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
    error_class: str = ""
    place: str = ""
    first_us: int = 0
    last_us: int = 0
    attempts: int = 0

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


def parked_trace(engine: Engine, parked_id: int) -> str:
    """Return the traceback of the last refusal of a parked transaction; raises `UsageError` like `parked_one`."""
    with reading(engine) as connection:
        chosen = select(func.max(parked_rows.c.trace)).where(_whole(connection, parked_id))
        return connection.execute(chosen).scalar() or ""


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


class ParkedState(NamedTuple):
    """A parked transaction with its last error, and whether it waits for a retry by the subscriber."""

    id: int
    client: ClientName
    error: str
    place: str
    retrying: bool


def states_of(connection: Connection, ids: Sequence[int]) -> list[ParkedState]:
    """Return the state of each of the transactions *ids* that is still parked; *ids* are those that `parked` lists."""
    columns = (*(parked_rows.c[name] for name in ("id", "error", "place", "tries")), receive_queues.c.client)
    joined = select(*columns).join_from(
        parked_rows, receive_queues, receive_queues.c.queue_id == parked_rows.c.queue_id
    )
    return [
        ParkedState(row.id, row.client, row.error, row.place, row.tries == _REQUESTED)
        for first in range(0, len(ids), _CHUNK)
        for row in connection.execute(joined.where(parked_rows.c.id.in_(ids[first : first + _CHUNK])))
    ]


def retry_parked(engine: Engine, parked_id: int, *, person: str = "") -> None:
    """Have the subscriber retry a parked transaction; success deletes it, another refusal parks it again.

    The retry comes before the entries of the queue; entries after the parked ones may be applied already. The action is
    stored under the name of *person*, if there is one. Raises `UsageError` for an id that `parked` does not list.
    """
    with writing(engine) as connection:
        asked = update(parked_rows).where(_whole(connection, parked_id)).values(tries=_REQUESTED)
        _require_any(connection.execute(asked).rowcount, parked_id)
        if person:
            actions.note(connection, person, "retry", f"parked transaction {parked_id} planned for another try")


def discard_parked(engine: Engine, parked_id: int, *, person: str = "") -> None:
    """Delete a parked transaction for good; raises `UsageError` for an id that `parked` does not list.

    The action is stored under the name of *person*, if there is one.
    """
    with writing(engine) as connection:
        entries = connection.execute(delete(parked_rows).where(_whole(connection, parked_id))).rowcount
        _require_any(entries, parked_id)
        if person:
            noun = "entry" if entries == 1 else "entries"
            actions.note(connection, person, "discard", f"parked transaction {parked_id} of {entries:,} {noun} deleted")


def has_any(connection: Connection, queue_id: int) -> bool:
    """Return whether a queue has a parked transaction."""
    own = select(parked_rows.c.id).where(parked_rows.c.queue_id == queue_id)
    return connection.execute(own.limit(1)).first() is not None


def forget_parked(connection: Connection, older_than_us: int) -> int:
    """Delete the entries that were parked before that time; return their number."""
    return connection.execute(delete(parked_rows).where(parked_rows.c.parked_us < older_than_us)).rowcount


def has_older(parked_us: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition that entries were parked before that time."""
    return exists(select(parked_rows.c.queue_id).where(parked_rows.c.parked_us < parked_us))


def forget_after(connection: Connection, queue_id: int, seq: int) -> None:
    """Delete parked log entries of a queue after *seq*: their source has lost them."""
    of_queue = (parked_rows.c.queue_id == queue_id, parked_rows.c.kind == LOG)
    connection.execute(delete(parked_rows).where(*of_queue, parked_rows.c.seq > seq))


def forget_all(connection: Connection, queue_id: int) -> int:
    """Delete all parked entries of a queue, because a snapshot replaces them; return their number."""
    return connection.execute(delete(parked_rows).where(parked_rows.c.queue_id == queue_id)).rowcount


def park(
    connection: Connection, queue_id: int, kind: str, history: str, rows: Sequence[ReceivedRow], failure: Failure
) -> None:
    """Store a refused transaction, in the caller's transaction that removes it from the queue."""
    common = {
        "queue_id": queue_id,
        "kind": kind,
        "branch": history,
        "error": cleaned(failure.error),
        "tries": failure.tries,
        "parked_us": now_us(),
        "error_class": failure.error_class,
        "place": failure.place,
        "first_us": failure.first_us,
        "last_us": failure.last_us,
        "attempts": failure.tries,
    }
    # The other rows repeat no traceback.
    traces = (failure.trace, *[""] * (len(rows) - 1))
    stored = [{**common, **row._asdict(), "trace": trace} for row, trace in zip(rows, traces, strict=True)]
    connection.execute(insert(parked_rows), stored)


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


def refuse(engine: Engine, retry: Retry, facts: ErrorFacts) -> None:
    """Park the transaction again after another refusal."""
    failed = {
        "tries": 1,
        "error": cleaned(facts.error),
        "error_class": facts.error_class,
        "place": facts.place,
        "last_us": now_us(),
        "attempts": parked_rows.c.attempts + 1,
    }
    rows = _rows_of(retry.identity)
    first = select(func.min(parked_rows.c.id)).where(rows).scalar_subquery()
    with writing_briefly(engine) as connection:
        connection.execute(update(parked_rows).where(rows).values(failed))
        connection.execute(update(parked_rows).where(parked_rows.c.id == first).values(trace=facts.trace))


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
            *(func.max(parked_rows.c[name]) for name in ("error_class", "place", "first_us", "last_us", "attempts")),
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


def _require_any(rows: int, parked_id: int) -> None:
    # A retry, or another operator, may have removed the rows while the statement waited for them.
    if not rows:
        raise UsageError(_absent(parked_id))


def _absent(parked_id: int) -> str:
    return f"there is no parked transaction {parked_id}: `lrq park list` shows those that there are"


def _identity(connection: Connection, parked_id: int) -> Identity | None:
    if abs(parked_id) > _LARGEST:
        return None
    columns = (parked_rows.c[name] for name in Identity._fields)
    row = connection.execute(select(*columns).where(parked_rows.c.id == parked_id)).first()
    return None if row is None else Identity(*row)


def _rows_of(identity: Identity) -> ColumnElement[bool]:
    return and_(*(parked_rows.c[name] == value for name, value in identity._asdict().items()))
