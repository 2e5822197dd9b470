"""How delivery stands where it does not get on: kept outside the listener's transaction, which is rolled back."""

from typing import NamedTuple

from sqlalchemy import Connection, Engine, delete, exc, insert, select, update

from queues.clock import now_us
from queues.tables import consumer_failures as failures
from queues.transactions import writing_briefly

#: Longest description of an error that is kept, in characters.
LONGEST = 500


class Failure(NamedTuple):
    """The source transaction that begins at `seq` (of a snapshot: the row) has been refused `tries` times."""

    seq: int
    tries: int
    error: str


def describe(error: BaseException) -> str:
    """Return the first line of *error* with its class, without the payloads that SQLAlchemy adds to a message."""
    cause = error.orig if isinstance(error, exc.StatementError) and error.orig is not None else error
    words = str(cause).strip().partition("\n")[0]
    return f"{type(cause).__name__}: {words}"[:LONGEST]


def record(engine: Engine, queue_id: int, failure: Failure) -> None:
    """Keep *failure* as the newest of the queue."""
    values = {**failure._asdict(), "updated_us": now_us()}
    with writing_briefly(engine) as connection:
        if not connection.execute(update(failures).where(failures.c.queue_id == queue_id).values(values)).rowcount:
            connection.execute(insert(failures).values(queue_id=queue_id, **values))


def last(connection: Connection, queue_id: int) -> Failure | None:
    """Return what was recorded and not cleared."""
    found = select(failures.c.seq, failures.c.tries, failures.c.error).where(failures.c.queue_id == queue_id)
    row = connection.execute(found).first()
    return None if row is None else Failure(row.seq, row.tries, row.error)


def clear(connection: Connection, queue_id: int) -> None:
    """Forget the failure, in the transaction that got on."""
    connection.execute(delete(failures).where(failures.c.queue_id == queue_id))
