"""The last delivery failure of each queue, stored outside the listener's transaction, which is rolled back."""

from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, Row, Table, and_, delete, insert, select, update

from queues.clock import now_us
from queues.database.tables.consumers import consumer_failures
from queues.database.tables.shards import shard_failures
from queues.database.transactions import writing_briefly
from queues.error_facts import ErrorFacts
from queues.words import cleaned


class Failure(NamedTuple):
    """The listener has refused the source transaction at `seq` (in a snapshot: the row) `tries` times.

    For `error` to `trace` see `ErrorFacts`. The first refusal was at `first_us` and the last one at `last_us`; 0 stands
    for an unknown time. A failure that was read has its `trace` only if the reader asked for it.
    """

    seq: int
    tries: int
    error: str
    error_class: str = ""
    place: str = ""
    first_us: int = 0
    last_us: int = 0
    trace: str = ""


_READ: Final = ("seq", "tries", "error", "error_class", "place", "first_us", "updated_us")


def again(before: Failure | None, seq: int, facts: ErrorFacts) -> Failure:
    """Return the next failure at *seq*, with the time of now; *before* counts if it is of the same entry."""
    moment = now_us()
    same = before if before is not None and before.seq == seq else None
    tries = same.tries + 1 if same else 1
    first_us = same.first_us if same and same.first_us else moment
    return Failure(seq, tries, facts.error, facts.error_class, facts.place, first_us, moment, facts.trace)


def record(engine: Engine, queue_id: int, failure: Failure, shard: int | None = None) -> None:
    """Store *failure* as the last of the queue, or of one shard."""
    table, own, key = _place(queue_id, shard)
    values = {**failure._asdict(), "error": cleaned(failure.error), "updated_us": failure.last_us or now_us()}
    del values["last_us"]
    with writing_briefly(engine) as connection:
        if not connection.execute(update(table).where(own).values(values)).rowcount:
            connection.execute(insert(table).values(**key, **values))


def last(connection: Connection, queue_id: int, shard: int | None = None, *, traced: bool = False) -> Failure | None:
    """Return the stored failure of a queue or of one shard, or None."""
    table, own, _ = _place(queue_id, shard)
    names = (*_READ, "trace") if traced else _READ
    row = connection.execute(select(*(table.c[name] for name in names)).where(own)).first()
    return None if row is None else _failure(row)


def of_shards(connection: Connection, queue_id: int) -> dict[int, Failure]:
    """Return the stored failures of the shards of a queue, by their numbers."""
    columns = [shard_failures.c[name] for name in (*_READ, "shard")]
    rows = connection.execute(select(*columns).where(shard_failures.c.queue_id == queue_id))
    return {row.shard: _failure(row) for row in rows}


def clear(connection: Connection, queue_id: int, shard: int | None = None) -> None:
    """Delete the failure of a queue or of one shard, in the transaction that applies the entries."""
    table, own, _ = _place(queue_id, shard)
    connection.execute(delete(table).where(own))


def _failure(row: Row[tuple[object, ...]]) -> Failure:
    found = row._asdict()
    last_us = found.pop("updated_us")
    found.pop("shard", None)
    return Failure(**found, last_us=last_us)


def _place(queue_id: int, shard: int | None) -> tuple[Table, ColumnElement[bool], dict[str, int]]:
    """Return the table of a failure, the condition for its row, and the values of its key."""
    table = consumer_failures if shard is None else shard_failures
    key = {"queue_id": queue_id} if shard is None else {"queue_id": queue_id, "shard": shard}
    return table, and_(*(table.c[name] == value for name, value in key.items())), key
