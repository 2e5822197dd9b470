"""The last delivery failure of each queue, stored outside the listener's transaction, which is rolled back."""

from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, Table, and_, delete, insert, select, update

from queues.clock import now_us
from queues.database.tables import consumer_failures, shard_failures
from queues.database.transactions import writing_briefly
from queues.words import cleaned


class Failure(NamedTuple):
    """The listener has refused the source transaction at `seq` (in a snapshot: the row) `tries` times."""

    seq: int
    tries: int
    error: str


def record(engine: Engine, queue_id: int, failure: Failure, shard: int | None = None) -> None:
    """Store *failure* as the last of the queue, or of one shard."""
    table, own, key = _place(queue_id, shard)
    values = {**failure._asdict(), "error": cleaned(failure.error), "updated_us": now_us()}
    with writing_briefly(engine) as connection:
        if not connection.execute(update(table).where(own).values(values)).rowcount:
            connection.execute(insert(table).values(**key, **values))


def last(connection: Connection, queue_id: int, shard: int | None = None) -> Failure | None:
    """Return the stored failure of a queue or of one shard, or None."""
    table, own, _ = _place(queue_id, shard)
    row = connection.execute(select(table.c.seq, table.c.tries, table.c.error).where(own)).first()
    return None if row is None else Failure(row.seq, row.tries, row.error)


def of_shards(connection: Connection, queue_id: int) -> dict[int, Failure]:
    """Return the stored failures of the shards of a queue, by their numbers."""
    columns = [shard_failures.c[name] for name in ("shard", *Failure._fields)]
    rows = connection.execute(select(*columns).where(shard_failures.c.queue_id == queue_id))
    return {row.shard: Failure(row.seq, row.tries, row.error) for row in rows}


def clear(connection: Connection, queue_id: int, shard: int | None = None) -> None:
    """Delete the failure of a queue or of one shard, in the transaction that applies the entries."""
    table, own, _ = _place(queue_id, shard)
    connection.execute(delete(table).where(own))


def _place(queue_id: int, shard: int | None) -> tuple[Table, ColumnElement[bool], dict[str, int]]:
    """Return the table of a failure, the condition for its row, and the values of its key."""
    table = consumer_failures if shard is None else shard_failures
    key = {"queue_id": queue_id} if shard is None else {"queue_id": queue_id, "shard": shard}
    return table, and_(*(table.c[name] == value for name, value in key.items())), key
