"""The last delivery failure of each queue, stored outside the listener's transaction, which is rolled back."""

from typing import NamedTuple

from sqlalchemy import Connection, Engine, delete, insert, select, update

from queues.clock import now_us
from queues.database.tables import consumer_failures as failures
from queues.database.transactions import writing_briefly
from queues.words import cleaned


class Failure(NamedTuple):
    """The listener has refused the source transaction at `seq` (in a snapshot: the row) `tries` times."""

    seq: int
    tries: int
    error: str


def record(engine: Engine, queue_id: int, failure: Failure) -> None:
    """Store *failure* as the last of the queue."""
    values = {**failure._asdict(), "error": cleaned(failure.error), "updated_us": now_us()}
    with writing_briefly(engine) as connection:
        if not connection.execute(update(failures).where(failures.c.queue_id == queue_id).values(values)).rowcount:
            connection.execute(insert(failures).values(queue_id=queue_id, **values))


def last(connection: Connection, queue_id: int) -> Failure | None:
    """Return the stored failure, or None."""
    found = select(failures.c.seq, failures.c.tries, failures.c.error).where(failures.c.queue_id == queue_id)
    row = connection.execute(found).first()
    return None if row is None else Failure(row.seq, row.tries, row.error)


def clear(connection: Connection, queue_id: int) -> None:
    """Delete the failure, in the transaction that applies the entries."""
    connection.execute(delete(failures).where(failures.c.queue_id == queue_id))
