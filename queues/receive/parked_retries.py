"""The retries of parked transactions by the subscriber, once a person has asked for them."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Engine, delete, func, select, update

from queues.clock import now_us
from queues.database.tables.consumers import parked_entries
from queues.database.transactions import writing_briefly
from queues.error_facts import ErrorFacts
from queues.receive.parked_rows import REQUESTED, Identity, identity_of, rows_of
from queues.receive.received_rows import ReceivedRow
from queues.words import cleaned


@dataclass(frozen=True, slots=True)
class Retry:
    """A parked transaction that is to be retried, with its rows."""

    identity: Identity
    rows: Sequence[ReceivedRow]


def requested(connection: Connection, parked_id: int) -> Retry:
    """Read the parked transaction of row *parked_id*; without rows if it has been deleted."""
    identity = identity_of(connection, parked_id)
    if identity is None:
        return Retry(Identity(0, "", "", 0, 0), ())
    columns = (parked_entries.c[name] for name in ReceivedRow._fields)
    rows = connection.execute(select(*columns).where(rows_of(identity)).order_by(parked_entries.c.id))
    return Retry(identity, [ReceivedRow(*row) for row in rows])


def keep(connection: Connection, retry: Retry) -> bool:
    """Lock the rows of *retry* until the transaction ends; False if they were deleted or are not to be retried.

    On SQLite, the caller's transaction must have written before.
    """
    found = connection.execute(select(parked_entries.c.id).where(*_wanted(retry)).with_for_update()).all()
    return len(found) == len(retry.rows) > 0


def take(connection: Connection, retry: Retry) -> bool:
    """Delete the rows of *retry* in the caller's transaction; False if they were deleted or are not to be retried."""
    return connection.execute(delete(parked_entries).where(*_wanted(retry))).rowcount == len(retry.rows) > 0


def _wanted(retry: Retry) -> tuple[ColumnElement[bool], ...]:
    return rows_of(retry.identity), parked_entries.c.tries == REQUESTED


def refuse(engine: Engine, retry: Retry, facts: ErrorFacts) -> None:
    """Park the transaction again after another refusal."""
    failed = {
        "tries": 1,
        "error": cleaned(facts.error),
        "error_class": facts.error_class,
        "place": facts.place,
        "last_us": now_us(),
        "attempts": parked_entries.c.attempts + 1,
    }
    rows = rows_of(retry.identity)
    first = select(func.min(parked_entries.c.id)).where(rows).scalar_subquery()
    with writing_briefly(engine) as connection:
        connection.execute(update(parked_entries).where(rows).values(failed))
        connection.execute(update(parked_entries).where(parked_entries.c.id == first).values(trace=facts.trace))
