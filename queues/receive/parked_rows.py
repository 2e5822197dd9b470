"""The rows of parked transactions: how they come, how they are found, and when they are forgotten."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, select

from queues.clock import now_us
from queues.database import dialects
from queues.database.left_out import remove_all
from queues.database.tables.consumers import parked_entries
from queues.receive.failures import Failure
from queues.receive.received_rows import ReceivedRow
from queues.words import cleaned

#: The kinds of parked transactions.
LOG: Final = "log"
SNAPSHOT: Final = "snapshot"

#: The `tries` of a transaction that is to be retried.
REQUESTED: Final = 0
# The largest number of a database.
_LARGEST: Final = 2**63 - 1


class Identity(NamedTuple):
    """The columns that all rows of one parked transaction have in common."""

    queue_id: int
    kind: str
    branch: str
    transaction_seq: int
    parked_us: int


def identity_of(connection: Connection, parked_id: int) -> Identity | None:
    """Return the identity of the transaction that has the row *parked_id*; None if there is no such row."""
    if abs(parked_id) > _LARGEST:
        return None
    columns = (parked_entries.c[name] for name in Identity._fields)
    row = connection.execute(select(*columns).where(parked_entries.c.id == parked_id)).first()
    return None if row is None else Identity(*row)


def rows_of(identity: Identity) -> ColumnElement[bool]:
    """Return the condition that a row belongs to the transaction."""
    return and_(*(parked_entries.c[name] == value for name, value in identity._asdict().items()))


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
    values = [tuple(each.values()) for each in stored]
    dialects.of(connection).bulk_insert(connection, parked_entries, list(stored[0]), values)


def has_any(connection: Connection, queue_id: int) -> bool:
    """Return whether a queue has a parked transaction."""
    own = select(parked_entries.c.id).where(parked_entries.c.queue_id == queue_id)
    return connection.execute(own.limit(1)).first() is not None


def forget_parked(connection: Connection, older_than_us: int) -> int:
    """Delete the entries that were parked before that time; return their number."""
    return connection.execute(delete(parked_entries).where(parked_entries.c.parked_us < older_than_us)).rowcount


def has_older(parked_us: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition that entries were parked before that time."""
    return exists(select(parked_entries.c.queue_id).where(parked_entries.c.parked_us < parked_us))


def forget_after(connection: Connection, queue_id: int, seq: int) -> None:
    """Delete parked log entries of a queue after *seq*: their source has lost them."""
    of_queue = (parked_entries.c.queue_id == queue_id, parked_entries.c.kind == LOG)
    remove_all(connection, parked_entries, *of_queue, parked_entries.c.seq > seq)


def forget_all(connection: Connection, queue_id: int) -> int:
    """Delete all parked entries of a queue, because a snapshot replaces them; return their number."""
    return remove_all(connection, parked_entries, parked_entries.c.queue_id == queue_id)
