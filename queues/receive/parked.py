"""Parked transactions, as persons see them: refused by a listener, and set aside so that later entries go on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, Select, delete, func, select, update

from queues.database import actions
from queues.database.tables.consumers import parked_entries
from queues.database.tables.receive import receive_queues
from queues.database.transactions import reading, writing
from queues.errors import UsageError
from queues.names import ClientName
from queues.receive.parked_rows import REQUESTED, Identity, identity_of, rows_of
from queues.receive.received_rows import ReceivedRow

#: The most ids in one statement.
_CHUNK: Final = 500


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
        return self.tries == REQUESTED


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
        chosen = select(func.max(parked_entries.c.trace)).where(_whole(connection, parked_id))
        return connection.execute(chosen).scalar() or ""


def parked_contents(
    engine: Engine, parked_id: int, *, limit: int = 100, payload_bytes: int = 2**30
) -> list[ReceivedRow]:
    """Return up to *limit* entries of a parked transaction, in order, each with the first *payload_bytes* bytes.

    Raises `UsageError` for an id that `parked` does not list.
    """
    beginning = func.substr(parked_entries.c.payload, 1, payload_bytes)
    columns = (beginning if name == "payload" else parked_entries.c[name] for name in ReceivedRow._fields)
    with reading(engine) as connection:
        chosen = select(*columns).where(_whole(connection, parked_id))
        rows = connection.execute(chosen.order_by(parked_entries.c.id).limit(limit)).all()
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
    columns = (*(parked_entries.c[name] for name in ("id", "error", "place", "tries")), receive_queues.c.client)
    joined = select(*columns).join_from(
        parked_entries, receive_queues, receive_queues.c.queue_id == parked_entries.c.queue_id
    )
    return [
        ParkedState(row.id, row.client, row.error, row.place, row.tries == REQUESTED)
        for first in range(0, len(ids), _CHUNK)
        for row in connection.execute(joined.where(parked_entries.c.id.in_(ids[first : first + _CHUNK])))
    ]


def retry_parked(engine: Engine, parked_id: int, *, person: str = "") -> None:
    """Have the subscriber retry a parked transaction; success deletes it, another refusal parks it again.

    The retry comes before the entries of the queue; entries after the parked ones may be applied already. The action is
    stored under the name of *person*, if there is one. Raises `UsageError` for an id that `parked` does not list.
    """
    with writing(engine) as connection:
        asked = update(parked_entries).where(_whole(connection, parked_id)).values(tries=REQUESTED)
        _require_any(connection.execute(asked).rowcount, parked_id)
        if person:
            actions.note(connection, person, "retry", f"parked transaction {parked_id} planned for another try")


def discard_parked(engine: Engine, parked_id: int, *, person: str = "") -> None:
    """Delete a parked transaction for good; raises `UsageError` for an id that `parked` does not list.

    The action is stored under the name of *person*, if there is one.
    """
    with writing(engine) as connection:
        entries = connection.execute(delete(parked_entries).where(_whole(connection, parked_id))).rowcount
        _require_any(entries, parked_id)
        if person:
            noun = "entry" if entries == 1 else "entries"
            actions.note(connection, person, "discard", f"parked transaction {parked_id} of {entries:,} {noun} deleted")


def _listing(client: str | None) -> Select[tuple[Any, ...]]:
    group = [parked_entries.c[name] for name in Identity._fields]
    listing = (
        select(
            func.min(parked_entries.c.id).label("id"),
            receive_queues.c.client,
            receive_queues.c.source,
            parked_entries.c.kind,
            parked_entries.c.branch,
            parked_entries.c.transaction_seq,
            func.count(),
            func.sum(func.length(parked_entries.c.payload)),
            func.min(parked_entries.c.error),
            func.min(parked_entries.c.tries),
            parked_entries.c.parked_us,
            *(func.max(parked_entries.c[name]) for name in ("error_class", "place", "first_us", "last_us", "attempts")),
        )
        .join_from(parked_entries, receive_queues, receive_queues.c.queue_id == parked_entries.c.queue_id)
        .group_by(*group, receive_queues.c.client, receive_queues.c.source)
        .order_by("id")
    )
    return listing if client is None else listing.where(receive_queues.c.client == client)


def _whole(connection: Connection, parked_id: int) -> ColumnElement[bool]:
    identity = identity_of(connection, parked_id)
    if identity is None:
        raise UsageError(_absent(parked_id))
    return rows_of(identity)


def _require_any(rows: int, parked_id: int) -> None:
    # A retry, or another operator, may have removed the rows while the statement waited for them.
    if not rows:
        raise UsageError(_absent(parked_id))


def _absent(parked_id: int) -> str:
    return f"there is no parked transaction {parked_id}: `lrq park list` shows those that there are"
